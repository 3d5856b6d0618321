from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from harness.model.errors import SubjectError, UsageError
from harness.subjects import pypi
from harness.subjects.pypi import TRIES, pip_index_url, sdist_tree

CHILD = """
import sys
from pathlib import Path
from harness.subjects.pypi import sdist_tree

class Say:
    def start(self, total, what): print(what, flush=True)
    def advance(self, n): pass
    def done(self): pass

print(sdist_tree("1.2.3", cache=Path(sys.argv[1]), progress=Say(), index_url=sys.argv[2], backoff_s=0))
"""
WAIT_S = 30
CHUNK = 65535
"""Bytes that pypi-simple reads at once."""
JSON = "application/vnd.pypi.simple.v1+json"


class Index:
    """A package index with vLLM 1.2.3 (a source distribution and a wheel) on a real local server."""

    def __init__(self, server: HTTPServer, sdist: bytes) -> None:
        self.server = server
        self.sdist = sdist
        self.url = server.url_for("/simple/")
        self.filename = "vllm-1.2.3.tar.gz"
        self.digests = {"sha256": hashlib.sha256(sdist).hexdigest()}
        self.downloads = 0
        self.answers: list[Callable[[], Response]] = []
        """Answers to the first downloads; afterwards the whole file is served."""
        server.expect_request("/simple/vllm/").respond_with_handler(self._page)
        server.expect_request(f"/files/{self.filename}").respond_with_handler(self._file)

    def _page(self, request: Request) -> Response:
        files = [self._entry(self.filename, self.digests), self._entry("vllm-1.2.3-py3-none-any.whl", {})]
        files += [self._entry(f"vllm-{version}.tar.gz", {}) for version in ("1.0", "1.1", "1.4.0", "2.0", "odd_one")]
        page = {"meta": {"api-version": "1.1"}, "name": "vllm", "versions": [], "files": files}
        return Response(json.dumps(page), content_type=JSON)

    def _entry(self, name: str, digests: dict[str, str]) -> dict[str, Any]:
        return {"filename": name, "url": f"/files/{name}", "hashes": digests, "size": len(self.sdist)}

    def _file(self, request: Request) -> Response:
        self.downloads += 1
        if self.answers:
            return self.answers.pop(0)()
        return Response(self.sdist)

    def cut(self) -> Response:
        """Half of the file, with the length of the whole; then the connection closes."""
        half = iter([self.sdist[: len(self.sdist) // 2]])  # an iterator, or werkzeug corrects the length
        return Response(half, headers={"Content-Length": str(len(self.sdist))})

    def short(self) -> Response:
        """Half of the file, in a stream that ends without a word about its length."""
        return Response(iter([self.sdist[: len(self.sdist) // 2]]))


@pytest.fixture
def index(httpserver: HTTPServer, sdist: bytes, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setenv("NO_PROXY", "*")
    return Index(httpserver, sdist)


@pytest.fixture
def fetch(index: Index, tmp_path: Path, progress: Any) -> Callable[..., Path]:
    def fetch(word: str = "1.2.3") -> Path:
        return sdist_tree(word, cache=tmp_path / "cache", progress=progress, index_url=index.url, backoff_s=0)

    return fetch


def _left(cache: Path) -> list[str]:
    """What is in the cache besides lock files, at the level of versions."""
    folder = cache / "subjects" / "pypi"
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_version_is_fetched_once_unpacked_and_then_served_without_the_network(
    index: Index, fetch: Callable[..., Path], tmp_path: Path, progress: Any
) -> None:
    tree = fetch()
    assert tree == tmp_path / "cache" / "subjects" / "pypi" / "1.2.3"
    assert (tree / "vllm" / "a.py").read_bytes() == b"a = 1\n"
    assert progress.whats == ["downloading vllm-1.2.3.tar.gz", "unpacking vllm-1.2.3.tar.gz"]
    assert progress.totals[0] == progress.seen[0] == len(index.sdist)
    assert progress.open == 0
    requests = len(index.server.log)
    assert fetch("v1.2.3") == tree
    assert len(index.server.log) == requests
    assert _left(tmp_path / "cache") == ["1.2.3"]


def test_a_version_in_the_cache_needs_no_index_at_all(
    fetch: Callable[..., Path], tmp_path: Path, progress: Any
) -> None:
    tree = fetch()
    again = sdist_tree("1.2.3", cache=tmp_path / "cache", progress=progress, index_url="http://localhost:1/simple/")
    assert again == tree


@pytest.mark.parametrize("how", ["cut", "short"])
def test_a_connection_cut_twice_is_taken_up_again(
    how: str, index: Index, fetch: Callable[..., Path], tmp_path: Path, progress: Any
) -> None:
    index.answers = [getattr(index, how)] * 2
    assert (fetch() / "vllm" / "a.py").is_file()
    assert index.downloads == 3
    assert progress.open == 0


@pytest.mark.parametrize("how", ["cut", "short"])
def test_a_connection_cut_again_and_again_is_told_in_bytes_and_nothing_stays(
    how: str, index: Index, fetch: Callable[..., Path], tmp_path: Path
) -> None:
    index.answers = [getattr(index, how)] * TRIES
    half, whole = len(index.sdist) // 2, len(index.sdist)
    # The client counts in whole chunks: what came of the last one is lost with the connection.
    seen = half if how == "short" else half - half % CHUNK
    with pytest.raises(SubjectError) as caught:
        fetch()
    assert 0 < seen < whole
    facts = f"(got 'at least {seen} bytes of vllm-1.2.3.tar.gz'; expected {whole} bytes)"
    assert f"cut {TRIES} times {facts}" in str(caught.value)
    assert index.downloads == TRIES
    assert _left(tmp_path / "cache") == []
    assert fetch().is_dir()


def test_a_wrong_digest_is_told_once_and_nothing_stays(
    index: Index, fetch: Callable[..., Path], tmp_path: Path
) -> None:
    index.digests = {"sha256": "0" * 64}
    actual = hashlib.sha256(index.sdist).hexdigest()
    with pytest.raises(SubjectError, match=f"wrong digest \\(got 'sha256 {actual}'; expected {'0' * 64}\\)"):
        fetch()
    assert index.downloads == 1
    assert _left(tmp_path / "cache") == []


@pytest.mark.parametrize("digests", [{}, {"md5": "0" * 32}])
def test_a_file_without_a_sha256_is_not_even_fetched(
    digests: dict[str, str], index: Index, fetch: Callable[..., Path]
) -> None:
    index.digests = digests
    with pytest.raises(SubjectError, match="gives no sha256"):
        fetch()
    assert index.downloads == 0


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("1.3", "1.1, 1.2.3, 1.4.0, 2.0"),
        ("0.1", "1.0, 1.1"),
        ("9", "1.4.0, 2.0"),
        ("1.2.3.post1", "1.1, 1.2.3, 1.4.0, 2.0"),
    ],
)
def test_an_unknown_version_is_told_with_the_nearest(
    word: str, near: str, fetch: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(SubjectError) as caught:
        fetch(word)
    told = f"no source distribution or wheel of this version (got '{word}'). The nearest are {near}."
    assert told in str(caught.value)
    assert _left(tmp_path / "cache") == []


def test_a_version_without_a_source_distribution_is_its_wheel(index: Index, tmp_path: Path, progress: Any) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("vllm/__init__.py", "")
    index.filename, index.sdist = "vllm-1.2.4-cp38-abi3-manylinux_2_31_x86_64.whl", buffer.getvalue()
    index.digests = {"sha256": hashlib.sha256(index.sdist).hexdigest()}
    index.server.expect_request(f"/files/{index.filename}").respond_with_data(index.sdist)
    tree = sdist_tree("1.2.4", cache=tmp_path, progress=progress, index_url=index.url, backoff_s=0)
    assert [path.relative_to(tree).as_posix() for path in tree.rglob("*.py")] == ["vllm/__init__.py"]


@pytest.mark.parametrize("word", ["latest", "../1.2.3", "", "1.2.3/../../x", "==1.2.3"])
def test_a_word_that_is_no_version_is_refused_without_the_network(
    word: str, index: Index, fetch: Callable[..., Path]
) -> None:
    with pytest.raises(UsageError, match="not a version"):
        fetch(word)
    assert index.server.log == []


def test_an_index_without_the_project_is_told(httpserver: HTTPServer, tmp_path: Path, progress: Any) -> None:
    httpserver.expect_request("/simple/vllm/").respond_with_data("", status=404)
    with pytest.raises(SubjectError, match="no index page from"):
        sdist_tree("1", cache=tmp_path, progress=progress, index_url=httpserver.url_for("/simple"), backoff_s=0)


@pytest.mark.parametrize(("content_type", "body"), [(JSON, "{"), (JSON, "{}"), ("image/png", "x")])
def test_an_answer_that_is_no_index_page_is_told(
    content_type: str, body: str, httpserver: HTTPServer, tmp_path: Path, progress: Any
) -> None:
    httpserver.expect_request("/simple/vllm/").respond_with_data(body, content_type=content_type)
    with pytest.raises(SubjectError, match="no index page from"):
        sdist_tree("1", cache=tmp_path, progress=progress, index_url=httpserver.url_for("/simple"), backoff_s=0)


@pytest.mark.parametrize("url", ["http://user:secret@localhost:1/simple/", "file:///nowhere"])
def test_an_index_that_cannot_be_reached_is_told_without_its_password(url: str, tmp_path: Path, progress: Any) -> None:
    with pytest.raises(SubjectError, match="no index page from") as caught:
        sdist_tree("1", cache=tmp_path, progress=progress, index_url=url, backoff_s=0)
    assert "secret" not in str(caught.value)


def test_a_busy_index_is_asked_again(httpserver: HTTPServer, sdist: bytes, tmp_path: Path, progress: Any) -> None:
    httpserver.expect_ordered_request("/simple/vllm/").respond_with_data("", status=503)
    page = f'<a href="/f/vllm-1.2.3.tar.gz#sha256={hashlib.sha256(sdist).hexdigest()}">vllm-1.2.3.tar.gz</a>'
    httpserver.expect_ordered_request("/simple/vllm/").respond_with_data(page, content_type="text/html")
    httpserver.expect_ordered_request("/f/vllm-1.2.3.tar.gz").respond_with_data(sdist)
    tree = sdist_tree("1.2.3", cache=tmp_path, progress=progress, index_url=httpserver.url_for("/simple"), backoff_s=0)
    assert (tree / "vllm" / "a.py").is_file()


def test_a_refused_file_is_told_with_its_status_and_not_asked_for_again(
    index: Index, fetch: Callable[..., Path]
) -> None:
    index.answers = [lambda: Response("", status=403)]
    with pytest.raises(SubjectError, match=r"the download is refused \(got .*403"):
        fetch()
    assert index.downloads == 1


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"vllm-1.2.3/vllm/__init__.py": b"", "../out.py": b""}, "member '../out.py'"),
        ({"vllm-1.2.3/setup.py": b""}, "not a source distribution of vLLM (got 'vllm-1.2.3'"),
        ({"one/vllm/__init__.py": b"", "two/x": b""}, "not a source distribution of vLLM (got 'one, two'"),
    ],
)
def test_an_archive_that_is_evil_or_something_else_never_becomes_visible(
    members: dict[str, bytes],
    says: str,
    httpserver: HTTPServer,
    pack: Callable[..., bytes],
    tmp_path: Path,
    progress: Any,
) -> None:
    index = Index(httpserver, pack(members))
    with pytest.raises(SubjectError) as caught:
        sdist_tree("1.2.3", cache=tmp_path / "cache", progress=progress, index_url=index.url, backoff_s=0)
    assert says in str(caught.value)
    assert _left(tmp_path / "cache") == []
    assert not (tmp_path / "out.py").exists()


class Gate:
    """Holds the first download until it is opened."""

    def __init__(self, index: Index) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        index.answers = [lambda: self._hold(index)]

    def _hold(self, index: Index) -> Response:
        self.reached.set()
        assert self.opened.wait(WAIT_S)
        return Response(index.sdist)


def _child(index: Index, cache: Path) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", CHILD, str(cache), index.url]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)


def test_of_two_processes_at_once_one_downloads_and_the_other_waits(index: Index, tmp_path: Path) -> None:
    gate = Gate(index)
    with _child(index, tmp_path) as first:
        assert gate.reached.wait(WAIT_S)
        with _child(index, tmp_path) as second:
            assert second.stdout is not None
            says = second.stdout.readline()
            gate.opened.set()
            outputs = [process.communicate(timeout=WAIT_S)[0].splitlines() for process in (first, second)]
    assert says == "waiting for another process that prepares 1.2.3\n"
    tree = str(tmp_path / "subjects" / "pypi" / "1.2.3")
    assert outputs == [["downloading vllm-1.2.3.tar.gz", "unpacking vllm-1.2.3.tar.gz", tree], [tree]]
    assert index.downloads == 1


def test_what_a_killed_process_leaves_is_invisible_and_cleaned_by_the_next(
    index: Index, fetch: Callable[..., Path], tmp_path: Path
) -> None:
    gate = Gate(index)
    with _child(index, tmp_path / "cache") as process:
        assert gate.reached.wait(WAIT_S)
        process.kill()
    gate.opened.set()
    assert _left(tmp_path / "cache") == [".1.2.3.partial"]
    assert (fetch() / "vllm" / "a.py").is_file()
    assert _left(tmp_path / "cache") == ["1.2.3"]
    assert index.downloads == 2


@pytest.mark.parametrize(
    ("listing", "url"),
    [
        ("global.index-url='https://a.invalid/simple'\nglobal.cert='x=y'\n", "https://a.invalid/simple"),
        ("global.index-url='https://a.invalid'\n:env:.index-url='https://b.invalid'\n", "https://b.invalid"),
        ("global.index-url='https://a.invalid'\ndownload.index-url='https://c.invalid'\n", "https://c.invalid"),
        ("global.extra-index-url='https://a.invalid'\n", None),
        ("", None),
    ],
)
def test_the_index_is_the_one_that_pip_would_use(
    listing: str, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[1:] == ["-m", "pip", "config", "list"]
        return subprocess.CompletedProcess(command, 0, stdout=listing)

    monkeypatch.setattr(pypi.subprocess, "run", run)
    assert pip_index_url() == url


def test_pips_real_answer_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True)
    if asked.returncode:
        pytest.skip("needs pip in the environment that runs the tests")
    monkeypatch.setenv("PIP_INDEX_URL", "https://it's.invalid/simple")
    assert pip_index_url() == "https://it's.invalid/simple"


def test_an_index_given_by_the_caller_is_taken_without_asking_pip(
    fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pypi, "pip_index_url", lambda: pytest.fail("pip was asked"))
    assert fetch().is_dir()


def test_pip_is_asked_for_the_index_where_the_caller_gives_none(
    index: Index, tmp_path: Path, progress: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pypi, "pip_index_url", lambda: index.url)
    sdist_tree("1.2.3", cache=tmp_path, progress=progress, backoff_s=0)
    assert index.downloads == 1
