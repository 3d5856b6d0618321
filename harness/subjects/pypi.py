"""vLLM's source distribution of one version, or its wheel where it has none, from a package index into the cache.

In: a version. Out: the unpacked tree. Must not run anything of it, and must not touch the network when it is cached.
"""

from __future__ import annotations

import ast
import bisect
import re
import subprocess
import sys
import time
from pathlib import Path

import requests
from packaging.version import InvalidVersion, Version
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    DigestMismatchError,
    DistributionPackage,
    NoSuchProjectError,
    PyPISimple,
    UnsupportedRepoVersionError,
)
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from harness.model.errors import SubjectError, UsageError, located
from harness.subjects.archive import extract
from harness.subjects.progress import Progress
from harness.subjects.store import once
from harness.subjects.wheel import extract_wheel

PROJECT = "vllm"
SDIST, WHEEL = "sdist", "wheel"
_SERVED = {SDIST: (".tar.gz",), WHEEL: (".whl",)}
"""Kinds of distribution that are served, as pypi-simple names them, with the ending of the file."""
TRIES = 4
BACKOFF_S = 0.5
"""Wait before the second try; doubled for each further one."""
_TIMEOUT_S = (10.0, 60.0)
"""To connect, and between two reads."""
_NEIGHBOURS = 2
_BUSY = (429, 500, 502, 503, 504)


def sdist_tree(
    word: str, *, cache: Path, progress: Progress, index_url: str | None = None, backoff_s: float = BACKOFF_S
) -> Path:
    """The tree of ``pypi:VERSION``.

    Args:
        word: the version.
        cache: the cache folder; the tree is ``subjects/pypi/VERSION`` below it.
        progress: is told of the download and the unpacking.
        index_url: simple index to ask; None for pip's own setting, else PyPI.
        backoff_s: wait before the second try of a download, doubled for each further one.

    Raises:
        UsageError: not a version.
        SubjectError: the index has no such version or cannot be reached, the download is cut again and again, has
            the wrong digest, or holds a member that leaves its folder.
    """
    try:
        version = Version(word)
    except InvalidVersion as error:
        raise UsageError(located("--subject", "not a version", got=word, expected="pypi:0.33.0 or the like")) from error

    def build(scratch: Path) -> Path:
        index = index_url or pip_index_url() or PYPI_SIMPLE_ENDPOINT
        with PyPISimple(index, session=_session(backoff_s)) as client:
            package = _find(client, version)
            archive = scratch / package.filename
            _download(client, package, archive, progress, backoff_s)
        if package.package_type == WHEEL:
            extract_wheel(archive, scratch / "tree", progress)
            return scratch / "tree"
        extract(archive, scratch / "tree", progress)
        return _only_folder(scratch / "tree", package.filename)

    return once(cache / "subjects" / "pypi" / str(version), build, progress)


def pip_index_url() -> str | None:
    """The package index that pip would use here, if one is set. Costs a subprocess of about half a second.

    Only the index itself counts: pip's extra indexes, certificates and find-links are not honoured.
    """
    command = [sys.executable, "-m", "pip", "config", "list"]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # An installation without pip (uv makes such) has no setting: exit code 1, nothing on stdout.
    settings = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    # In pip's order of precedence.
    for name in (":env:.index-url", "download.index-url", "global.index-url"):
        if name in settings:
            return str(ast.literal_eval(settings[name]))
    return None


def _session(backoff_s: float) -> requests.Session:
    session = requests.Session()
    retry = Retry(total=TRIES - 1, backoff_factor=backoff_s, status_forcelist=_BUSY, raise_on_status=False)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    session.mount("https://", HTTPAdapter(max_retries=retry))
    return session


def _find(client: PyPISimple, version: Version) -> DistributionPackage:
    where = f"--subject pypi:{version}"
    index = _public(client.endpoint)
    try:
        packages = client.get_project_page(PROJECT, timeout=_TIMEOUT_S).packages
    # ValueError: an answer that is no index page (pydantic, JSON, content type).
    except (requests.RequestException, NoSuchProjectError, UnsupportedRepoVersionError, ValueError) as error:
        what, hint = f"no index page from {index}", "Check the network, or pip's index-url, or use path:DIR."
        raise SubjectError(located(where, what, got=_public(str(error)), hint=hint)) from error
    found: dict[Version, DistributionPackage] = {}
    # The last one stays: a source distribution, for it has csrc. Of wheels any will do, the Python in them is the same.
    for package in sorted(packages, key=lambda one: (one.package_type == SDIST, one.filename)):
        if package.filename.endswith(_SERVED.get(package.package_type or "", ())) and _is_version(package.version):
            found[Version(str(package.version))] = package
    if version not in found:
        what = f"{index} has no source distribution or wheel of this version"
        raise SubjectError(located(where, what, got=str(version), hint=_neighbours(version, sorted(found))))
    if "sha256" not in found[version].digests:
        what = f"{index} gives no sha256 of {found[version].filename}"
        raise SubjectError(located(where, what, hint="Use another index."))
    return found[version]


def _neighbours(version: Version, known: list[Version]) -> str:
    place = bisect.bisect(known, version)
    near = known[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS]
    return f"The nearest are {', '.join(map(str, near))}." if near else "It has none at all."


def _is_version(word: str | None) -> bool:
    try:
        return word is not None and bool(Version(word))
    except InvalidVersion:
        return False


class _Tracker:
    """Passes pypi-simple's progress on, and remembers how far the last try came."""

    def __init__(self, progress: Progress, what: str, size: int | None) -> None:
        self._progress, self._what = progress, what
        self.expected = size
        self.received = 0

    def __call__(self, length: int | None) -> _Tracker:
        self.received = 0
        self.expected = length if length is not None else self.expected
        self._progress.start(self.expected, self._what)
        return self

    def __enter__(self) -> _Tracker:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._progress.done()

    def update(self, increment: int) -> None:
        self.received += increment
        self._progress.advance(increment)

    @property
    def is_short(self) -> bool:
        return self.expected is not None and self.received < self.expected


def _download(client: PyPISimple, package: DistributionPackage, to: Path, progress: Progress, backoff_s: float) -> None:
    where = f"--subject pypi:{package.version}"
    tracker = _Tracker(progress, f"downloading {package.filename}", package.size)
    for attempt in range(TRIES):
        time.sleep(backoff_s * 2 ** (attempt - 1) if attempt else 0)
        try:
            # pypi-simple starts again from the first byte and leaves no file when it fails. Identity, because some
            # servers label a .tar.gz as encoded; requests would then unpack it and break the digest.
            headers = {"Accept-Encoding": "identity"}
            client.download_package(package, to, progress=tracker, timeout=_TIMEOUT_S, headers=headers)
            return
        except requests.HTTPError as error:
            hint = "Check the package index."
            raise SubjectError(located(where, "the download is refused", got=_public(str(error)), hint=hint)) from error
        except DigestMismatchError as error:
            if not tracker.is_short:
                raise _wrong_digest(where, package, error) from error
        except requests.RequestException:
            continue  # cut: the next try, or the error below with what came of the last one
    got = f"at least {tracker.received} bytes of {package.filename}"
    expected = f"{tracker.expected if tracker.expected is not None else 'an unknown number of'} bytes"
    hint = "Check the network and try again."
    raise SubjectError(located(where, f"the download was cut {TRIES} times", got=got, expected=expected, hint=hint))


def _wrong_digest(where: str, package: DistributionPackage, error: DigestMismatchError) -> SubjectError:
    got, expected = f"{error.algorithm} {error.actual_digest}", error.expected_digest
    hint = "The file was removed; do not trust where it came from."
    what = f"{package.filename} has the wrong digest"
    return SubjectError(located(where, what, got=got, expected=expected, hint=hint))


def _only_folder(tree: Path, filename: str) -> Path:
    inside = list(tree.iterdir())
    if len(inside) != 1 or not (inside[0] / PROJECT / "__init__.py").is_file():
        got = ", ".join(sorted(path.name for path in inside)[:5])
        expected = "vllm-VERSION/vllm/"
        raise SubjectError(located(filename, "not a source distribution of vLLM", got=got, expected=expected))
    return inside[0]


def _public(text: str) -> str:
    """``text`` without the user and password that a URL in it may carry."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)
