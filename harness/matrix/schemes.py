"""What the scheme of a kernel may hold, as tables. In: a surface and a scheme of the file. Out: every fault of it.

Must not: ask vLLM, or know places of the file. A key stands here only if the adapter of the surface reads it and a
selector of a served release takes it (``harness/adapters/linear.py``): another would be dropped without a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from harness.model.cell import FROM_COMMANDS, Surface
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
_CHAIN = {"chain": _FLAG.optional}
_SCALED: Keys = {"activation": _QUANT, "weight": _QUANT, **_CHAIN}

LINEAR: Mapping[str, Keys] = {
    "fp8": _SCALED,
    "wfp8a16": _SCALED,
    "int8": {**_CHAIN, "channelwise": _FLAG, "static": _FLAG, "symmetric": _FLAG},
    "mp": {
        **_CHAIN,
        "weight_type": _one_of("uint4b8", "uint4", "uint8b128", "uint8"),  # names of vllm.scalar_type.scalar_types
        "group_size": _GROUP,
        "zero_points": _FLAG,
        "dtype": _one_of("bfloat16", "float16"),
    },
    "mxfp4": {**_CHAIN, "activation": _QUANT.optional},
    "mxfp6": {**_CHAIN, "weight": _QUANT, "activation": _QUANT.optional},
    "mxfp8": {**_CHAIN},
    "nvfp4": {**_CHAIN, "a16": _FLAG.optional},
}
"""Keys of a linear scheme beside ``entry``, by its entry: the parameters of vLLM's selectors, read in 0.20 to 0.33."""

_SIZE = Key(lambda value: type(value) is int and value > 0, "a whole number above 0")
_WORD = _form(r"[a-z0-9_]+", "a dtype or kind as vLLM writes it")
_MEMBER = _form(r"[A-Z][A-Z0-9_]*", "a member of vLLM's AttentionBackendEnum")
_PREDICATE = _form(r"[a-z_]+", "a predicate of the class").optional
_DTYPE = _one_of("bfloat16", "float16", "float32").optional
_LAYER_FLAGS = (
    "mla", "sparse", "sink", "sliding_window", "mm_prefix", "kv_connector", "non_causal", "per_head_scales",
    "adaptive_verification", "pcp", "dcp", "rswa",
)  # fmt: skip

ATTENTION: Mapping[str, Keys] = {
    "layer": {
        "head_size": _SIZE,
        "dtype": _DTYPE,
        "kv": _WORD.optional,
        "run_kv": _WORD.optional,
        "block_size": _SIZE.optional,
        "num_heads": _SIZE.optional,
        "attn_type": _one_of("decoder", "encoder", "encoder_only", "encoder_decoder").optional,
        "model_type": _one_of("encoder_decoder").optional,
        "backend": _MEMBER.optional,
        **dict.fromkeys(_LAYER_FLAGS, _FLAG.optional),
    },
    "vision": {"head_size": _SIZE, "dtype": _DTYPE, "backend": _MEMBER.optional},
    "mla_prefill": {"dtype": _DTYPE, "dims": _form(r"\d+/\d+/\d+", "head sizes as 128/64/128").optional},
    "paged": {
        "head_size": _SIZE,
        "block_size": _SIZE,
        "gqa_ratio": _SIZE,
        "dtype": _DTYPE,
        "kv": _WORD.optional,
        "window": _SIZE.optional,
        "max_seq_len": _SIZE.optional,
        "alibi": _FLAG.optional,
        "sink": _FLAG.optional,
    },
}
"""Keys of an attention scheme beside ``entry``, by its entry (``harness/adapters/attention_requests.py``)."""

_CLASS = _form(r"[A-Za-z_]\w*", "a class of vLLM")
_MODULE = _form(r"vllm(\.\w+)+", "a module of vLLM")
MOE: Keys = {
    "oracle": _one_of(
        "unquantized", "fp8", "int8", "mxfp4", "mxfp4_deepseek_v4", "mxfp8", "nvfp4", "wna16", "w4a8", "w4a8_int8"
    ),
    "weight": _QUANT.optional,
    "activation": _QUANT.optional,
    "experts": _SIZE,
    "topk": _SIZE,
    "hidden": _SIZE,
    "intermediate": _SIZE,
    "function": _form(r"[a-z0-9_]+", "an activation of vLLM's MoEActivation like silu or relu2_no_mul").optional,
    "routing": _form(r"[A-Z]\w+", "a member of vLLM's RoutingMethodType"),
    "bias": _FLAG.optional,
    "tp": _SIZE.optional,
    "ep": _SIZE.optional,
    "dp": _SIZE.optional,
    "all2all": _form(r"[a-z0-9_]+", "an all2all_backend of vLLM").optional,
    "backend": _form(r"[a-z0-9_]+", "a moe_backend of vLLM").optional,
    "lora": _FLAG.optional,
    "hash_routing": _FLAG.optional,
    "decomposed": _FLAG.optional,
    "swiglu_limit": _SIZE.optional,
    "cutlass": _FLAG.optional,
    "checkpoint": _one_of("compressed_tensors", "gptq", "awq", "moe_wna16").optional,
    "group_size": _GROUP.optional,
    "zero_points": _FLAG.optional,
    "weight_bits": _SIZE.optional,
}
"""Keys of a MoE scheme (``harness/adapters/moe_config.py`` and ``moe.py``)."""

_MODULES: Keys = {
    "modules": _form(r"\S+", "a pattern of modules below vllm.v1.attention.backends").optional,
    "of": _one_of("classes", "functions").optional,
}
"""Keys of a cell about attention modules (``harness/adapters/attention_classes.py``)."""

OTHERS: Mapping[Surface, Keys] = {
    Surface.ALLOWLIST: {"symbol": _SYMBOL},
    Surface.TUNED_GATE: {"args": _one_of("nk", "nk_bytes", "nk_dtype").optional},
    Surface.PLATFORM: {},
    Surface.AITER_GATE: {},
    Surface.GUARD: {},
    Surface.UNQUANTIZED_GEMM: {
        "dtype": _one_of("bfloat16", "float16", "float32"),
        "bias": _FLAG.optional,
        "head": _FLAG.optional,
        "batched": _FLAG.optional,
        "layout": _one_of("contiguous", "transposed", "strided").optional,
        "tokens": _SIZE.optional,
        "n": _SIZE.optional,
        "k": _SIZE.optional,
    },
    Surface.MOE: MOE,
    Surface.EXPERTS: {
        "class": _CLASS.optional,
        "module": _MODULE.optional,
        "layers": _FLAG.optional,
        "weight": _QUANT.optional,
        "activation": _QUANT.optional,
    },
    Surface.MOE_ORACLE: {},  # the name is the question
    Surface.ATTENTION_BACKEND: {"backend": _MEMBER.optional, "ask": _PREDICATE, "without": _PREDICATE, **_MODULES},
    Surface.IR_OP: {},  # the name is the question
    Surface.QUANTIZATION: {
        "checkpoint": _WORD.optional,
        "choice": _form(r"[a-z0-9_-]+", "a quantization method").optional,
        "model_type": _WORD.optional,
    },
    Surface.DTYPE: {"member": _form(r"[\w.]+:[\w.]+", "a module below vllm and a name in it as module:name").optional},
    Surface.DEFAULTS: {"args": _form(r"\S+( \S+)*", "arguments, by blanks").optional},
    Surface.SWITCH: {
        "values": _form(r"\S+( \S+)*", "values, by blanks").optional,
        "value": _form(r"\S+", "a value").optional,
        "gate": _form(r"[a-z0-9_]+", "a predicate of rocm_aiter_ops").optional,
    },
    Surface.IMPORT_EFFECT: {"effect": _one_of("variables", "device", "vendor")},
}

_LAYER = _one_of(
    "ReplicatedLinear", "ColumnParallelLinear", "RowParallelLinear", "MergedColumnParallelLinear", "QKVParallelLinear",
    "VocabParallelEmbedding", "ParallelLMHead",
)  # fmt: skip
WEIGHTS: Mapping[str, Keys] = {
    "layer": {
        "layer": _LAYER,
        "quant": _one_of("fp8_block", "fp8_tensor", "w4a16", "w4a16_asym", "mxfp4").optional,
        "processed": _FLAG.optional,
    },
    "w4a16": {"layout": _one_of("compressed_tensors", "gptq"), "n": _SIZE, "k": _SIZE, "group_size": _SIZE},
    "shuffled": {},
}
"""Keys of a scheme of surface weights beside ``entry``, by its entry (``harness/adapters/weights.py``)."""

LINEAR_KERNELS: Mapping[str, Keys] = {
    "interface": {"interface": _CLASS, "only": _CLASS.optional, "without": _CLASS.optional},
    "list": {"of": _form(r"registries|backends|predicates|[\w.]+:\w+", "a list, or module:function of tile sizes")},
    "selector": {
        "select": _one_of(*LINEAR),
        **{key: rule.optional for keys in LINEAR.values() for key, rule in keys.items() if key != "chain"},
        "bmm": _SIZE.optional,
    },
}
"""Keys of a scheme of surface linear_kernel beside ``entry`` (``harness/adapters/linear_kernels.py``)."""

ENTRIES: Mapping[Surface, Mapping[str, Keys]] = {
    Surface.LINEAR: LINEAR,
    Surface.LINEAR_KERNEL: LINEAR_KERNELS,
    Surface.WEIGHTS: WEIGHTS,
    Surface.ATTENTION: ATTENTION,
}
"""Surfaces whose schemes name an ``entry``, with the keys of each entry."""


def faults(surface: Surface, scheme: Mapping[str, object]) -> Iterator[Fault]:
    """Everything that is wrong with a scheme; a value that is a list is left to the caller.

    Args:
        surface: the surface of the kernel.
        scheme: key -> value, as the file has it.
    """
    if surface in FROM_COMMANDS:
        yield Fault("cells of this surface do not come from a matrix", hint=f"Run: {FROM_COMMANDS[surface]}")
        return
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
    entries = ENTRIES.get(surface)
    if entries is None:
        return {ENV: _VARIABLES, **OTHERS[surface]}
    entry = scheme.get("entry")
    known = entries.get(entry) if isinstance(entry, str) else None
    if known is None:
        known = {key: rule.optional for keys in entries.values() for key, rule in keys.items()}
    return {ENV: _VARIABLES, "entry": _one_of(*entries), **known}
