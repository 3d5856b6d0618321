"""What a function of the subject may be asked, as far as names and kinds of its parameters tell it.

In: a function. Out: inputs by name, or nothing where a parameter has no domain. The domains are the same for every
release and target, and do not look into the function: an edit of it cannot move them.
"""

from __future__ import annotations

import inspect
import itertools
import math
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from harness.adapters.attention_requests import PREFILL, members_for_here
from harness.adapters.decision import find
from harness.adapters.posed_configs import posed_configs

Domain = Mapping[str, Any]
"""Word for an input -> the input. The first is the plain one, from which one thing at a time is moved."""

_NUMBERS: Mapping[str, tuple[Any, ...]] = {
    "head_size": (128, 64, 72, 96, 100, 256, 320, 512, 576),
    "head_size_v": (128, 64, 256),
    "block_size": (16, None, 1, 8, 32, 64, 128, 256, 544),
    "num_heads": (16, 0, 1, 4, 8, 12, 24, 32, 40, 48, 64, 96, 112, 128, 136, 144),
    "num_kv_heads": (8, 1),
    "max_qo_len": (1, 2, 3, 4, 5, 8),
    "dcp_world_size": (1, 2, 8),
    "kv_cache_bytes": (None, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32),
    "gqa_ratio": (8, 0, 1, 2, 3, 16, 17),
    "max_seq_len": (8192, 131072, 131073),
    "sliding_window": (0, (-1, -1), 4096),
    "num_prefills": (0, 1, 4),
    "num_decodes": (0, 1, 4),
    "num_decode_tokens": (0, 4),
    "max_query_len": (1, 2, 4096),
    "next_n": (1, 2, 3, 4, 5),
    "kv_lora_rank": (512, 256, 576),
    "qk_nope_head_dim": (128, 192),
    "qk_rope_head_dim": (64, 32),
    "v_head_dim": (128, 256),
    "compress_ratio": (1, 0, 4, 128),
    "num_rows": (1, 8, 32, 64, 256, 1024, 4096),
    "max_valid_seq_len": (None, 1, 4096, 8192, 16384, 32768, 65536, 262144),
    "topk_tokens": (2048, None, 512, 1024),
    "shared_expert_id": (-1, 0, 3),
}
"""Name of a parameter -> sizes, counts and lengths, at and about what kernels care for."""

_CAPABILITIES = ((9, 4), (7, 5), (8, 0), (8, 9), (9, 0), (9, 5), (10, 0), (10, 3), (11, 0), (12, 0), (12, 5))
"""Capability numbers of CUDA's devices and, as HIP gives them, of ROCm's."""

_ARCHES = (
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1100",
    "gfx1151",
    "gfx1200",
    "gfx1201",
    "gfx1250",
    "gfx803",
    "sm_90",
    "gfx9",
)
_WORDS: Mapping[str, tuple[Any, ...]] = {
    "attn_type": ("decoder", "encoder", "encoder_only", "encoder_decoder"),
    "gcn_arch": _ARCHES,
    "gdn_backend": ("triton", "flashinfer", "aiter_flydsl"),
}


def inputs_of(function: Callable[..., Any], most: int, plain: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Inputs of a function: all there are, or one and two moved at a time where there are more than ``most``.

    Args:
        function: a function, or a method bound to its class.
        most: inputs that may be asked.
        plain: parameter -> what a plain input has there, where the function's class has a word in it.

    Returns:
        Name of each input and its arguments; none where the function wants what no domain has.
    """
    domains: dict[str, Domain] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        domain = domain_of(name, parameter.annotation, function)
        if domain:
            first = {str(plain[name]): plain[name]} if name in plain else {}
            domains[name] = {**first, **{word: value for word, value in domain.items() if word not in first}}
        elif parameter.default is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
            return []
    if math.prod(map(len, domains.values())) <= most:
        points = itertools.product(*(domain.items() for domain in domains.values()))
        return [(_words(point), _arguments(domains, point)) for point in points]
    return list(_moved(domains, most))


def _words(point: tuple[tuple[str, Any], ...]) -> str:
    return " ".join(word for word, _ in point)


def _arguments(domains: Mapping[str, Domain], point: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return dict(zip(domains, (value for _, value in point), strict=True))


def _moved(domains: Mapping[str, Domain], most: int) -> Iterator[tuple[str, dict[str, Any]]]:
    base = {name: next(iter(domain.values())) for name, domain in domains.items()}
    moves = [
        [(f"{name}={word}", {name: value}) for word, value in itertools.islice(domain.items(), 1, None)]
        for name, domain in domains.items()
    ]
    yield "plain", dict(base)
    for word, moved in itertools.chain.from_iterable(moves):
        yield word, {**base, **moved}
    pairs = [pair for one, other in itertools.combinations(moves, 2) for pair in itertools.product(one, other)]
    if len(pairs) <= most:
        yield from ((f"{a[0]} {b[0]}", {**base, **a[1], **b[1]}) for a, b in pairs)


def domain_of(name: str, annotation: Any, function: Callable[..., Any]) -> Domain:
    """What a parameter may be; empty where nothing is known of it.

    Args:
        name: of the parameter.
        annotation: as the function has it; text where its module postpones annotations.
        function: where names of an annotation are looked up.
    """
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or str(annotation)
    if isinstance(annotation, types.UnionType):
        text = str(annotation)
    if "DeviceCapability" in text:
        return _capabilities(with_none="None" in text)
    if "VllmConfig" in text or name == "vllm_config":
        return posed_configs()
    if "dtype" in text:
        return _dtypes()
    for domain in (_by_name(name, text), _by_enumeration(text, function)):
        if domain:
            return domain
    if "Tensor" in text:
        return {"None": None, **_tensors()}
    if text == "bool" or (text == "Any" and name.startswith(("use_", "has_", "is_"))):
        return {"no": False, "yes": True}
    return {}


def _by_name(name: str, text: str) -> Domain:
    if name in _NUMBERS:
        return {str(value): value for value in _NUMBERS[name] if value is not None or "None" in text}
    if name in _WORDS:
        return {word: word for word in _WORDS[name]}
    if name.endswith("cache_dtype"):
        words = typing.get_args(find("vllm.config.cache", "CacheDType")) or ("auto", "fp8")
        return {**{word: word for word in words}, **({"None": None} if "None" in text else {})}
    return _BY_NAME[name]() if name in _BY_NAME else {}


def _by_enumeration(text: str, function: Any) -> Domain:
    """Members of an enumeration of the subject, with None where the parameter may be left out."""
    names = [word.strip().rpartition(".")[2] for word in text.split("|")]
    absent = {"None": None} if "None" in names else {}
    if names[0] == "AttentionBackendEnum":
        return {**absent, **members_for_here()}
    found = getattr(sys.modules.get(getattr(function, "__module__", "")), names[0], None)
    if not (isinstance(found, type) and issubclass(found, Enum)):
        return {}
    return {**absent, **found.__members__}


def _capabilities(*, with_none: bool) -> Domain:
    capability = find("vllm.platforms.interface", "DeviceCapability")
    found = {f"{major}.{minor}": capability(major, minor) for major, minor in _CAPABILITIES}
    return {**found, "None": None} if with_none else found


def _dtypes() -> Domain:
    import torch

    return {name: getattr(torch, name) for name in ("bfloat16", "float16", "float32", "float8_e4m3fn")}


def _tensors() -> Domain:
    import torch

    names = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz")
    return {name: torch.empty(0, dtype=getattr(torch, name), device="meta") for name in names}


def _slopes() -> Domain:
    import torch

    return {"None": None, "tensor": torch.empty(0, device="meta")}


def _backend_classes() -> Domain:
    """Classes of vLLM's registry that can be imported here."""
    found: dict[str, Any] = {}
    for name, member in members_for_here().items():
        try:
            found[name] = member.get_class()
        except ImportError:  # it needs a package
            continue
    return found


def _selector_configs() -> Domain:
    config = find("vllm.v1.attention.selector", "AttentionSelectorConfig")
    fields = getattr(config, "_fields", ())
    if config is None:
        return {}
    base: dict[str, Any] = {
        "head_size": 128,
        "dtype": _dtypes()["bfloat16"],
        "kv_cache_dtype": "auto",
        "block_size": None,
    }
    moved: Mapping[str, Mapping[str, Any]] = {
        "plain": {},
        "mla": {"use_mla": True, "head_size": 576},
        "sparse": {"use_mla": True, "use_sparse": True, "head_size": 576},
        "kv_connector": {"use_kv_connector": True},
        "sink": {"has_sink": True},
        "fp8": {"kv_cache_dtype": "fp8"},
        "turboquant": {"kv_cache_dtype": "turboquant_k8v4"},
        "ultraquant": {"kv_cache_dtype": "ultraquant_4bit"},
    }
    return {name: config(**{**base, **one}) for name, one in moved.items() if set(one) <= set(fields)}


def _dimensions() -> Domain:
    shape = find(f"{PREFILL}.base", "MLADimensions")
    if shape is None:
        return {}
    sizes = ((128, 64, 128), (192, 64, 256), (64, 32, 64), (0, 0, 0))
    keys = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return {"/".join(map(str, size)): shape(**dict(zip(keys, size, strict=True))) for size in sizes}


def _prefill_configs() -> Domain:
    config = find(f"{PREFILL}.selector", "MLAPrefillSelectorConfig")
    if config is None or not _dimensions():  # vllm<0.24: other fields
        return {}
    points = itertools.product(_dtypes().items(), _dimensions().items())
    return {f"{word} {dims}": config(dtype=dtype, mla_dimensions=shape) for (word, dtype), (dims, shape) in points}


def _quantizations() -> Domain:
    methods = find("vllm.model_executor.layers.quantization", "QUANTIZATION_METHODS") or ()
    return {name: name for name in (*methods, "no_such_method")}


def _architectures() -> Domain:
    rocm = "vllm.platforms.rocm"
    partly: Any = find(rocm, "_ROCM_PARTIALLY_SUPPORTED_MODELS") or {}
    refused: Any = find(rocm, "_ROCM_UNSUPPORTED_MODELS") or ()
    return {name: name for name in ("LlamaForCausalLM", *partly, *refused)}


def _metadata() -> Domain:
    """Metadata of a batch, as far as functions of a module look at it."""
    points = itertools.product((0, 1), (0, 1), (1024, 4096))
    return {
        f"{decodes}d{prefills}p{length}": types.SimpleNamespace(
            num_decodes=decodes, num_prefills=prefills, prefill_max_seq_len=length, topk_tokens=2048
        )
        for decodes, prefills, length in points
    }


_BY_NAME: Mapping[str, Callable[[], Domain]] = {
    "alibi_slopes": _slopes,
    "sinks": _slopes,
    "backend_class": _backend_classes,
    "attn_selector_config": _selector_configs,
    "mla_selector_config": _prefill_configs,
    "selector_config": _prefill_configs,
    "mla_dimensions": _dimensions,
    "quant": _quantizations,
    "model_arch": _architectures,
    "metadata": _metadata,
}
