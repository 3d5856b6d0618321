"""Questions about attention, as vLLM's own functions take them.

In: a cell whose scheme names an ``entry``: the backend of a layer, of a vision encoder, of an MLA prefill, or whether
ROCm's paged-attention kernel serves a shape. Out: the function and its arguments. It must not call the function, and
never drops a part of the question in silence: what a release has no word for is ``Missing``.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.adapters.decision import Missing, find
from harness.adapters.watch import accepted_arguments
from harness.model.cell import Cell

PREFILL = "vllm.v1.attention.backends.mla.prefill"
"""Package of the MLA prefill backends."""

_SELECTORS = ("vllm.v1.attention.selector", "vllm.attention.selector")  # vllm<0.14: the second
_REGISTRIES = ("vllm.v1.attention.backends.registry", "vllm.attention.backends.registry")  # vllm<0.14: the second

_OLD_DTYPES = ("auto", "fp8", "fp8_e4m3", "fp8_e5m2")
"""KV-cache dtypes that every release knows."""

_FIELDS: Mapping[str, str] = {
    "head_size": "head_size",
    "block_size": "block_size",
    "kv": "kv_cache_dtype",
    "attn_type": "attn_type",
    "mla": "use_mla",
    "sparse": "use_sparse",
    "sink": "has_sink",
    "sliding_window": "has_sliding_window",
    "mm_prefix": "use_mm_prefix",
    "kv_connector": "use_kv_connector",
    "non_causal": "use_non_causal",
    "per_head_scales": "use_per_head_quant_scales",
    "adaptive_verification": "use_adaptive_verification",
    "pcp": "use_pcp",
    "dcp": "use_dcp",
    "rswa": "use_rswa",
}
"""Key of a scheme -> field of vLLM's AttentionSelectorConfig."""

_HEADS = 16
"""Query heads of one rank where the scheme states none: DeepSeek-V3 at tensor-parallel size 8."""

_HEAD_SIZE = 128

Question = tuple[Callable[..., Any], Mapping[str, Any]]


def question(cell: Cell) -> Question:
    """vLLM's function that answers the cell, and the arguments it takes.

    Raises:
        Missing: the release has no such function, field, backend or dtype.
    """
    return _ENTRIES[str(cell.kernel.scheme["entry"])](cell)


def first_of(modules: Iterable[str], name: str) -> Any:
    """``name`` of the first of these modules that has it; None where none does."""
    return next((found for module in modules if (found := find(module, name)) is not None), None)


def member_of(name: str) -> Any:
    """The member ``name`` of vLLM's registry of attention backends.

    Raises:
        Missing: the release has no such backend.
    """
    found = getattr(first_of(_REGISTRIES, "AttentionBackendEnum"), "__members__", {}).get(name)
    if found is None:
        raise Missing(f"attention backend {name}")
    return found


def class_name(member: Any) -> str:
    """The class that a member of a registry stands for; a tag without a class keeps its own name."""
    try:
        path = member.get_path()
    except ValueError:  # a tag for vision encoders, or the place of a user's own backend
        path = ""
    return path.rpartition(".")[2] or str(member.name)


def selected(cell: Cell) -> Any:
    """The backend that the user chose, as vLLM's registry has it; None where the choice is vLLM's."""
    name = cell.kernel.scheme.get("backend")
    return None if name is None else member_of(str(name))


_ELSEWHERE = re.compile(r"cutlass|flashinfer|flashmla|flashattn_mla|tokenspeed|trtllm|b12x|hpc|zentorch|xpu")
"""Names of modules of another platform: importing one may start its device."""


def is_for_here(module: str) -> bool:
    """Whether an attention module may be imported on ROCm: one of vLLM's own, and not of another platform."""
    return module.startswith("vllm.v1.attention") and _ELSEWHERE.search(module) is None


def members_for_here() -> dict[str, Any]:
    """Name -> member of vLLM's registry whose class may be imported on ROCm; not those of one model's own attention."""
    found: dict[str, Any] = {}
    for name, member in getattr(first_of(_REGISTRIES, "AttentionBackendEnum"), "__members__", {}).items():
        try:
            path = member.get_path()
        except ValueError:  # a tag for vision encoders, or the place of a user's own backend
            continue
        if is_for_here(path.rpartition(".")[0]):
            found[name] = member
    return found


@contextmanager
def run_around(cell: Cell) -> Iterator[None]:
    """The run that the layer is part of: the KV-cache dtype of its other layers, its model's kind and heads."""
    scheme, config = cell.kernel.scheme, _current_config()
    if config is None:
        yield
        return
    sizes = {
        "get_head_size": scheme.get("head_size", _HEAD_SIZE),
        "get_num_attention_heads": _HEADS,
        "get_num_kv_heads": 8,
    }
    wanted: list[tuple[Any, str, Any]] = [
        (config.model_config, name, lambda *_, size=size: size) for name, size in sizes.items()
    ]
    if "run_kv" in scheme:
        wanted.append((config.cache_config, "cache_dtype", scheme["run_kv"]))
    if "model_type" in scheme:
        wanted.append((config.model_config, "attn_type", scheme["model_type"]))
    before = [(home, name, getattr(home, name)) for home, name, _ in wanted]
    try:
        for home, name, value in wanted:
            object.__setattr__(home, name, value)
        yield
    finally:
        for home, name, value in before:
            object.__setattr__(home, name, value)


def _current_config() -> Any:
    """vLLM's configuration; None where the release cannot be configured here, so that only light questions are put."""
    try:
        from vllm.config import get_current_vllm_config

        return get_current_vllm_config()
    except (ImportError, AssertionError):
        return None


def _dtype(cell: Cell) -> Any:
    import torch

    return getattr(torch, str(cell.kernel.scheme.get("dtype", "bfloat16")))


def _layer(cell: Cell) -> Question:
    """``Platform.get_attn_backend_cls`` over one configuration; batch invariance is the environment's, as in vLLM."""
    from vllm import envs
    from vllm.platforms import current_platform

    scheme, entry = cell.kernel.scheme, current_platform.get_attn_backend_cls
    for name in (str(scheme.get("kv", "auto")), str(scheme.get("run_kv", "auto"))):
        if name not in _OLD_DTYPES and name not in typing.get_args(find("vllm.config.cache", "CacheDType")):
            raise Missing(f"KV-cache dtype {name}")
    asked = {_FIELDS[key]: value for key, value in scheme.items() if key in _FIELDS}
    fields: dict[str, Any] = {"dtype": _dtype(cell), "kv_cache_dtype": "auto", "block_size": None, **asked}
    arguments: dict[str, Any] = {"selected_backend": selected(cell), "num_heads": scheme.get("num_heads", _HEADS)}
    config = first_of(_SELECTORS, "AttentionSelectorConfig")
    if config is None:  # vllm<0.13: the fields are arguments of the selector itself
        fields = {"use_mla": False, "has_sink": False, "use_sparse": False, **fields}
        _require(accepted_arguments(entry, fields), fields, entry.__qualname__)
        return entry, accepted_arguments(entry, {**arguments, **fields})
    _require(config._fields, fields, config.__name__)
    if "use_batch_invariant" in config._fields:
        fields["use_batch_invariant"] = bool(envs.VLLM_BATCH_INVARIANT)
    return entry, accepted_arguments(entry, {**arguments, "attn_selector_config": config(**fields)})


def _require(known: Iterable[str], fields: Mapping[str, object], owner: str) -> None:
    missing = sorted(set(fields) - set(known))
    if missing:
        raise Missing(f"{missing[0]} in {owner}")


def _vision(cell: Cell) -> Question:
    """``Platform.get_vit_attn_backend``."""
    from vllm.platforms import current_platform

    entry = getattr(type(current_platform), "get_vit_attn_backend", None)
    if entry is None:
        raise Missing("Platform.get_vit_attn_backend")
    if current_platform.is_rocm():  # it keeps what it read from the environment
        forget = getattr(find("vllm.platforms.rocm", "flash_attn_triton_available"), "cache_clear", None)
        if forget is not None:
            forget()
    arguments = {"head_size": cell.kernel.scheme["head_size"], "dtype": _dtype(cell)}
    if "backend" in cell.kernel.scheme:
        arguments["backend"] = selected(cell)
    _require(accepted_arguments(entry, arguments), arguments, entry.__qualname__)  # vllm<0.13: no choice
    return entry, arguments


def _prefill(cell: Cell) -> Question:
    """The selector of MLA prefill backends, over a model's head sizes (128, 64 and 128 are DeepSeek's)."""
    from vllm.platforms import current_platform

    config = find(f"{PREFILL}.selector", "MLAPrefillSelectorConfig")
    if config is None:
        raise Missing("selector of MLA prefill backends")
    nope, rope, value = (int(size) for size in str(cell.kernel.scheme.get("dims", "128/64/128")).split("/"))
    dimensions = find(f"{PREFILL}.base", "MLADimensions")
    fields: dict[str, Any] = {"dtype": _dtype(cell)}
    if dimensions is None:  # vllm<0.24: a yes or no
        fields["is_r1_compatible"] = (nope, rope, value) == (128, 64, 128)
    else:
        fields["mla_dimensions"] = dimensions(qk_nope_head_dim=nope, qk_rope_head_dim=rope, v_head_dim=value)
    entry = getattr(type(current_platform), "get_mla_prefill_backend_cls", None)
    if entry is not None:
        return entry, {"mla_selector_config": config(**fields)}
    # vllm<0.32: a function of the selector's module, behind a cache
    entry = find(f"{PREFILL}.selector", "_auto_select_mla_prefill_backend")
    capability = current_platform.get_device_capability()
    if capability is None:
        raise Missing("choice among MLA prefill backends on a platform without capability numbers")
    arguments = {"device_capability": capability, "selector_config": config(**fields)}
    return getattr(entry, "__wrapped__", entry), arguments


def _paged(cell: Cell) -> Question:
    """ROCm's own predicate on its paged-attention kernel; a window of 0 is none. Lengths are in tokens."""
    import torch

    entry = find("vllm.platforms.rocm", "use_rocm_custom_paged_attention")
    if entry is None:
        raise Missing("use_rocm_custom_paged_attention")
    scheme, some = cell.kernel.scheme, torch.zeros(1)
    return getattr(entry, "__wrapped__", entry), {
        "qtype": _dtype(cell),
        "head_size": scheme["head_size"],
        "block_size": scheme["block_size"],
        "gqa_ratio": scheme["gqa_ratio"],
        "max_seq_len": scheme.get("max_seq_len", 8192),
        "sliding_window": scheme.get("window", 0),
        "kv_cache_dtype": scheme.get("kv", "auto"),
        "alibi_slopes": some if scheme.get("alibi") else None,
        "sinks": some if scheme.get("sink") else None,
    }


_ENTRIES: Mapping[str, Callable[[Cell], Question]] = {
    "layer": _layer,
    "vision": _vision,
    "mla_prefill": _prefill,
    "paged": _paged,
}
