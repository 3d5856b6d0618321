"""Declarations of custom operators: in C++ text, and in the table of a release.

In: preprocessed C++ text, or the lines of ``operators.tsv``. Out: (namespace, schema) pairs. It knows neither folders
of a tree nor torch.

The table stands in for ``csrc`` where a subject has none. A line is namespace, targets and schema, separated by tabs;
targets are words as in matrix.yaml (``rocm,-gfx1250``). Its first line names the release it was made from. ``python -m
harness.targets.operators TREE VERSION > harness/targets/operators.tsv`` renews it from a source distribution.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.target import Platform, Target

Declared = tuple[str, str]
"""(namespace, schema), the schema as torch parses it or a bare name."""

TABLE = Path(__file__).parent / "operators.tsv"
COMPILED = (Platform.ROCM, Platform.CUDA, Platform.CPU)
"""Platforms with compiled modules of vLLM's own. On XPU they are a package's."""

_HEAD = "# operators of vLLM "

_LIBRARY = re.compile(
    r"\b(?:STABLE_)?TORCH_LIBRARY(?:_FRAGMENT|_EXPAND)?\s*\(\s*"
    r"(?:(\w+)|CONCAT\(\s*TORCH_EXTENSION_NAME\s*,\s*(\w+)\s*\))\s*,\s*(\w+)\s*\)"
)
_DEFINITION = re.compile(r'\b(\w+)\s*\.\s*def\s*\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Table:
    """The operators of one release, for every target."""

    release: str
    rows: tuple[tuple[Declared, tuple[str, ...]], ...]
    """Each operator with the words of the targets whose build has it."""

    def of(self, target: Target) -> tuple[Declared, ...]:
        """The operators of ``target``'s build."""
        return tuple(declared for declared, words in self.rows if _stands_for(words, target))


def definitions(text: str, default: str) -> list[Declared]:
    """(namespace, schema) of every ``.def("...")`` in preprocessed C++ text.

    Args:
        text: C++ text.
        default: what ``TORCH_EXTENSION_NAME`` is in this file.
    """
    libraries = [
        (found.start(), default + (suffix or "") if name in (None, "TORCH_EXTENSION_NAME") else name, variable)
        for found in _LIBRARY.finditer(text)
        for name, suffix, variable in [found.groups()]
    ]
    out = []
    for match in _DEFINITION.finditer(text):
        inside = [(name, variable) for start, name, variable in libraries if start < match.start()]
        if not inside or inside[-1][1] != match.group(1):
            continue
        schema = " ".join("".join(_STRING.findall(match.group(2))).replace('\\"', '"').split())
        out.append((inside[-1][0], schema))
    return out


def read_table(path: Path = TABLE) -> Table:
    """Read a table of operators.

    Raises:
        ValueError: the file is no such table.
    """
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    if not head.startswith(_HEAD):
        raise ValueError(f"{path.name}: no table of operators (got {head[:40]!r}; expected {_HEAD!r})")
    release = head.removeprefix(_HEAD).partition(" ")[0].rstrip(",;")
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return Table(release, tuple(((space, schema), tuple(words.split(","))) for space, words, schema in rows))


def table_text(builds: Sequence[tuple[Target, Iterable[Declared]]], release: str) -> str:
    """The text of a table.

    Args:
        builds: every target with the operators of its build.
        release: the vLLM release that they were read from.
    """
    has: dict[Declared, set[str]] = {}
    for target, operators in builds:
        for declared in operators:
            has.setdefault(declared, set()).add(target.gfx)
    targets = [target for target, _ in builds]
    lines = [
        f"{_HEAD}{release}, read from csrc of its source distribution (https://pypi.org/project/vllm/{release}/).",
        "# namespace, targets whose build has it, schema. Made by: python -m harness.targets.operators TREE VERSION",
    ]
    lines += [f"{space}\t{_words(gfx, targets)}\t{schema}" for (space, schema), gfx in sorted(has.items())]
    return "\n".join(lines) + "\n"


def _words(gfx: set[str], targets: Sequence[Target]) -> str:
    """The shortest words for a set of gfx targets: a platform, a platform without some, or the targets one by one."""
    words: list[str] = []
    for platform in COMPILED:
        every = list(dict.fromkeys(target.gfx for target in targets if target.platform is platform))
        lacking = [f"-{name}" for name in every if name not in gfx]
        having = [name for name in every if name in gfx]
        if having:
            words += [platform.value, *lacking] if len(lacking) < len(having) else having
    return ",".join(words)


def _stands_for(words: Sequence[str], target: Target) -> bool:
    return f"-{target.gfx}" not in words and (target.platform.value in words or target.gfx in words)


def main(arguments: Sequence[str], write: Callable[[str], object]) -> None:
    """Write the table of a source tree: its folder and its version are the arguments."""
    from harness.targets.build import declared_build
    from harness.targets.facts import TARGETS

    tree, release = arguments
    targets = [target for target in TARGETS.values() if target.platform in COMPILED]
    write(table_text([(target, declared_build(Path(tree), target).schemas) for target in targets], release))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:], sys.stdout.write)
