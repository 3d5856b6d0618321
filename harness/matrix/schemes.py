"""What the scheme of a kernel may hold, as tables. In: a surface and a scheme of the file. Out: every fault of it.

Must not: ask vLLM, or know places of the file. A key stands here only if the adapter of the surface reads it and a
selector of a served release takes it (``harness/adapters/linear.py``): another would be dropped without a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from harness.model.cell import Surface
from harness.model.errors import nearest

NEEDS = "needs"
"""A key that every scheme may hold; its form is not checked here."""

ENV = "env"
"""A key that every scheme may hold: variables set for this kernel alone, as ``K=V K=V``."""


@dataclass(frozen=True)
class Key:
    """What one key of a scheme may hold."""

    accepts: Callable[[object], bool]
    expected: str
    names: tuple[str, ...] = ()
    """The right names, where they are few."""
    required: bool = True

    @property
    def optional(self) -> Key:
        """The same, but the key may be left out."""
        return replace(self, required=False)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a scheme."""

    what: str
    key: str | None = None
    """The key it is about; None is the scheme as a whole."""
    at_key: bool = False
    """The key itself is wrong, not its value."""
    got: object = None
    expected: str | None = None
    hint: str = ""


Keys = Mapping[str, Key]


def _one_of(*names: str) -> Key:
    return Key(lambda value: isinstance(value, str) and value in names, f"one of {', '.join(names)}", names)


def _form(pattern: str, expected: str) -> Key:
    form = re.compile(pattern)
    return Key(lambda value: isinstance(value, str) and form.fullmatch(value) is not None, expected)


def _is_group(value: object) -> bool:
    return type(value) is int and (value == -1 or value > 0)


_FLAG = Key(lambda value: isinstance(value, bool), "true or false")
_QUANT = _form(r"k[A-Z]\w+", "a name of quant_utils like kFp8StaticTensorSym")
_GROUP = Key(_is_group, "-1 or a whole number above 0")
_SYMBOL = _form(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "dotted.module:Name")
_VARIABLES = _form(r"[A-Z][A-Z0-9_]*=\S*( [A-Z][A-Z0-9_]*=\S*)*", "variables as K=V K=V").optional
_SCALED: Keys = {"activation": _QUANT, "weight": _QUANT}

LINEAR: Mapping[str, Keys] = {
    "fp8": _SCALED,
    "wfp8a16": _SCALED,
    "int8": {"channelwise": _FLAG, "static": _FLAG, "symmetric": _FLAG},
    "mp": {
        "weight_type": _one_of("uint4b8", "uint4", "uint8b128", "uint8"),  # names of vllm.scalar_type.scalar_types
        "group_size": _GROUP,
        "zero_points": _FLAG,
        "dtype": _one_of("bfloat16", "float16"),
    },
    "mxfp4": {"activation": _QUANT.optional},
    "mxfp6": {"weight": _QUANT, "activation": _QUANT.optional},
    "mxfp8": {},
    "nvfp4": {"a16": _FLAG.optional},
}
"""Keys of a linear scheme beside ``entry``, by its entry: the parameters of vLLM's selectors, read in 0.20 to 0.33."""

OTHERS: Mapping[Surface, Keys] = {
    Surface.ALLOWLIST: {"symbol": _SYMBOL},
    Surface.TUNED_GATE: {"args": _one_of("nk", "nk_bytes", "nk_dtype").optional},
    Surface.PLATFORM: {},
    Surface.AITER_GATE: {},
    Surface.GUARD: {},
    Surface.UNQUANTIZED_GEMM: {},
    Surface.MOE: {},
    Surface.EXPERTS: {},
    Surface.ATTENTION: {},
    Surface.ATTENTION_BACKEND: {},
    Surface.IR_OP: {},
    Surface.QUANTIZATION: {},
    Surface.DTYPE: {},
    Surface.DEFAULTS: {},
    Surface.SWITCH: {},
    Surface.WEIGHTS: {},
    Surface.IMPORT_EFFECT: {},
}

_ENTRY: Keys = {"entry": _one_of(*LINEAR)}
_ANY_LINEAR: Keys = {key: rule.optional for keys in LINEAR.values() for key, rule in keys.items()}


def faults(surface: Surface, scheme: Mapping[str, object]) -> Iterator[Fault]:
    """Everything that is wrong with a scheme; a value that is a list is left to the caller.

    Args:
        surface: the surface of the kernel.
        scheme: key -> value, as the file has it.
    """
    keys = _keys(surface, scheme)
    for key, value in scheme.items():
        if key == NEEDS:
            continue
        rule = keys.get(key)
        if rule is None:
            yield Fault("unknown key", key, at_key=True, got=key, hint=nearest(key, (*keys, NEEDS)))
        elif not isinstance(value, tuple) and not rule.accepts(value):
            hint = nearest(str(value), rule.names) if rule.names else ""
            yield Fault(f"wrong value for {key!r}", key, got=value, expected=rule.expected, hint=hint)
    for key, rule in keys.items():
        if rule.required and key not in scheme:
            yield Fault(f"the key {key!r} is missing", expected=rule.expected)


def _keys(surface: Surface, scheme: Mapping[str, object]) -> Keys:
    """The keys of this scheme; without a known entry, those of any, so that only what fits none is a fault."""
    if surface is not Surface.LINEAR:
        return {ENV: _VARIABLES, **OTHERS[surface]}
    entry = scheme.get("entry")
    known = LINEAR.get(entry) if isinstance(entry, str) else None
    return {ENV: _VARIABLES, **_ENTRY, **(_ANY_LINEAR if known is None else known)}
