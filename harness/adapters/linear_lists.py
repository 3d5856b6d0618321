"""Lists of the package of linear kernels: who is registered, what a user's word covers, predicates, tile sizes.

In: a cell of surface ``linear_kernel`` with entry ``list``. Out: the list in one line, entry by entry as candidates. It
must not ask a kernel class.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.adapters.decision import Decision, Missing, find
from harness.adapters.linear_requests import LINEAR
from harness.adapters.watch import accepted_arguments
from harness.model.cell import Cell
from harness.model.record import Candidate, Ended

_REGISTRY = re.compile(r"_POSSIBLE_(?:(\w+)_)?KERNELS")
_PREDICATE = re.compile(r"_?(is|on|has|supports?|can|use)_\w+")

_TOKENS = (1, 16, 32, 33, 64, 65, 128, 129, 256, 257, 512, 513, 1024, 1025, 2047, 2048, 4096, 8192)
"""Numbers of tokens M, on both sides of the powers of two at which tile sizes change."""

_WEIGHTS = (
    (768, 384), (768, 6144), (1024, 768), (1024, 1024), (1024, 1536), (1024, 2048), (1280, 6144), (1536, 768),
    (1536, 2048), (1536, 2560), (1536, 6144), (2048, 2048), (2048, 2176), (2048, 8192), (2560, 640), (2560, 1024),
    (4096, 4096), (6144, 1024), (6144, 2048), (6144, 4096), (8192, 1024), (16384, 2048), (24576, 4096),
)  # fmt: skip
"""Weights [N, K] of a rank: MiniMax-M3, SmolLM2 and Qwen3-8B, and K that no large power of two divides."""

_FORMS: tuple[Mapping[str, Any], ...] = (
    {"dtype": "bfloat16", "has_zp": False, "group_size": 128},
    {"dtype": "float16", "has_zp": False, "group_size": 128},
    {"dtype": "float16", "has_zp": True, "group_size": 32},
)


def decide_list(cell: Cell) -> Decision:
    """Tell one list of the package.

    Raises:
        Missing: the release has no such list.
    """
    name = str(cell.kernel.scheme["of"])
    entries = list(_LISTS[name]()) if name in _LISTS else list(_tiles(*name.split(":")))
    if not entries:
        raise Missing(f"{name} in {LINEAR}")
    return Decision(
        Ended.ANSWERED,
        "; ".join(f"{words}: {answer}" for words, answer in entries),
        LINEAR,
        candidates=tuple(Candidate(name=f"{words}: {answer}", accepted=True) for words, answer in entries),
    )


def registries() -> Mapping[str, Mapping[Any, list[type]]]:
    """Registries of the release by name (``MIXED`` is the one without): platform -> classes, in vLLM's own order."""
    found = ((_REGISTRY.fullmatch(name), value) for name, value in vars(importlib.import_module(LINEAR)).items())
    return {match[1] or "MIXED": value for match, value in found if match}


def _registered() -> Iterator[tuple[str, str]]:
    for name, kernels in sorted(registries().items()):
        for platform in sorted(kernels, key=lambda member: str(member.name)):
            yield f"{name} {platform.name}", " > ".join(kernel.__name__ for kernel in kernels[platform]) or "nobody"


def _backends() -> Iterator[tuple[str, str]]:
    """Whom vLLM's own filter leaves of all kernels for each word of ``--linear-backend``, and for an unknown one."""
    linear = importlib.import_module(LINEAR)
    words = backend_words()
    everybody = {kernel.__name__: kernel for all_ in registries().values() for some in all_.values() for kernel in some}
    everybody.update(  # classes that are offered without a registry
        (kernel.__name__, kernel) for word in words for kernel in linear._LINEAR_BACKEND_KERNEL_MAP[word]
    )
    offered = [everybody[name] for name in sorted(everybody)]
    for word in (*words, "gfxloop") if words else ():
        left = linear._filter_kernels_by_backend(word, offered)
        yield word, "all" if len(left) == len(offered) else ",".join(kernel.__name__ for kernel in left) or "nobody"


def backend_words() -> tuple[str, ...]:
    """What ``--linear-backend`` takes beside auto; vllm<0.21: there is no such option."""
    return tuple(sorted(find(LINEAR, "_LINEAR_BACKEND_KERNEL_MAP") or ()))


def _predicates() -> Iterator[tuple[str, str]]:
    """Functions of the kernel modules that need no argument and decide something about the device."""
    importlib.import_module(LINEAR)
    for path in sorted(name for name in sys.modules if name.startswith(f"{LINEAR}.")):
        for name, function in sorted(vars(sys.modules[path]).items()):
            own = getattr(function, "__module__", None) == path and callable(function)
            if own and _PREDICATE.fullmatch(name) and not inspect.signature(function).parameters:
                yield f"{path.removeprefix(LINEAR)[1:]}.{name}", _told(function)


def _told(function: Callable[[], Any]) -> str:
    try:
        return str(bool(function()))
    except Exception as error:  # a predicate of another platform
        return f"raises {type(error).__name__}"


def _tiles(module: str, name: str) -> Iterator[tuple[str, str]]:
    """From which M on which tiles are taken, for each weight and form of it that the function can tell apart."""
    import torch

    select = find(f"{LINEAR}.{module}", name)
    if select is None:
        return
    forms = [accepted_arguments(select, form) for form in _FORMS]
    for form in [form for at, form in enumerate(forms) if form not in forms[:at]]:
        given = {key: getattr(torch, value) if key == "dtype" else value for key, value in form.items()}
        for n, k in _WEIGHTS:
            words = f"{n} x {k} {' '.join(str(value) for value in form.values())}".strip()
            yield words, _runs(lambda m, n=n, k=k, given=given: select(M=m, N=n, K=k, **given))  # type: ignore[misc]


def _runs(select: Callable[[int], Any]) -> str:
    """``1:(16, 16) 65:(64, 64)``: the first M that gets each answer."""
    said: list[str] = []
    before: object = None
    for tokens in _TOKENS:
        now = tuple(select(tokens))
        if now != before:
            said.append(f"{tokens}:{'/'.join(str(size) for size in now)}")
        before = now
    return " ".join(said)


_LISTS: Mapping[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "registries": _registered,
    "backends": _backends,
    "predicates": _predicates,
}
