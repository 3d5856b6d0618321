"""vLLM's engine configuration for a kind of run, without a model: how it is made, compared and shown.

In: the name of a run. Out: a ``VllmConfig`` that has gone through the platform's ``check_and_update_config``, and in
which fields two of them differ. Ports, paths and instance names of this machine are never shown.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from harness.adapters.context import model_of
from harness.adapters.watch import accepted_arguments

_RANKS = {"distributed_executor_backend": "mp"}  # vllm<0.22: otherwise the devices of this machine are counted

RUNS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "no_graphs": {"compilation_config": {"cudagraph_mode": "NONE"}},
    "graphs_only": {"compilation_config": {"mode": "NONE", "cudagraph_mode": "FULL"}},
    "eager": {"compilation_config": {"mode": "NONE", "cudagraph_mode": "NONE"}},
    "O0": {"": {"optimization_level": 0}},
    "O1": {"": {"optimization_level": 1}},
    "O3": {"": {"optimization_level": 3}},
    "custom_ops_all": {"compilation_config": {"custom_ops": ["all"]}},
    "kv_fp8": {"cache_config": {"cache_dtype": "fp8"}},
    "tp8": {"parallel_config": {"tensor_parallel_size": 8, **_RANKS}},
    "pp2": {"parallel_config": {"pipeline_parallel_size": 2, **_RANKS}},
    "dp2": {"parallel_config": {"data_parallel_size": 2, **_RANKS}},
    "ep8": {"parallel_config": {"tensor_parallel_size": 8, "enable_expert_parallel": True, **_RANKS}},
    "dcp2": {"parallel_config": {"tensor_parallel_size": 8, "decode_context_parallel_size": 2, **_RANKS}},
    "pcp2": {"parallel_config": {"prefill_context_parallel_size": 2, **_RANKS}},
}
"""Runs: what each sets of every section of ``VllmConfig``; the section ``""`` is the configuration itself."""

MODELS: Mapping[str, Mapping[str, Any]] = {
    "dense": {},
    "quantized": {"quantization": "fp8"},
    "mla": {"use_mla": True},
    "mm_prefix": {"is_mm_prefix_lm": True},
    "sleeping": {"enable_sleep_mode": True},
    "deepseek_v4": {"model_type": "deepseek_v4", "use_mla": True},
}
"""Models: the features that a platform's ``check_and_update_config`` looks at (vLLM 0.20 to 0.33)."""

_SECTIONS = {
    "cache_config": "CacheConfig",
    "parallel_config": "ParallelConfig",
    "compilation_config": "CompilationConfig",
}

_VOLATILE = ("port", "instance_id", "cache_dir", "master_addr", "_ip", "traced_files")
"""Parts of names of fields whose value is this machine's or this process's."""

_LONG = 8
"""A sequence with more members is shown by their number and digest."""


def configured(run: str) -> Any:
    """The configuration of one run, as the platform leaves it.

    Raises:
        ValueError: vLLM refuses the run on this platform.
    """
    import vllm.config

    settings: dict[str, Any] = {}
    for section, values in RUNS[run].items():
        wanted = {name: _member_of(name, value) for name, value in values.items()}
        if section == "":
            settings.update(accepted_arguments(vllm.config.VllmConfig, wanted))
        else:
            settings[section] = getattr(vllm.config, _SECTIONS[section])(**wanted)
    return vllm.config.VllmConfig(**settings)


def with_model(name: str | None) -> Any:
    """The configuration of defaults once the platform has seen a model (None: no model) in it."""
    from vllm.platforms import current_platform

    config = configured("default")
    config.compilation_config.custom_ops = []  # or the platform's own additions would be taken for the user's
    if name is not None:
        config.model_config = model_of(max_model_len=4096, **MODELS[name])
        config.scheduler_config.is_multimodal_model = True
    defaults = getattr(current_platform, "apply_config_platform_defaults", None)  # vllm<0.14
    if defaults is not None:
        defaults(config)
    current_platform.check_and_update_config(config)
    config.model_config = None
    config.scheduler_config.is_multimodal_model = False
    return config


def _member_of(name: str, value: Any) -> Any:
    """Members of enumerations are named."""
    from vllm.config.compilation import CompilationMode, CUDAGraphMode

    kinds: Mapping[str, Any] = {"mode": CompilationMode, "cudagraph_mode": CUDAGraphMode}
    return kinds[name][value] if name in kinds else value


def differing(config: Any, base: Any) -> dict[str, Any]:
    """Path -> value of every field of ``config`` that is another one in ``base``, in the order of the configuration.

    Args:
        config: a ``VllmConfig``, or one of its sections.
        base: another of the same kind.
    """
    before = dict(_leaves(base))
    return {path: value for path, value in _leaves(config) if shown(before.get(path)) != shown(value)}


def untouched(section: Any) -> Any:
    """A section of the same kind as vLLM makes it by itself, before the platform has seen it."""
    kind = type(section)
    return getattr(kind, "default_factory", kind)()  # the factory is that of sections that need a model's facts


def _leaves(section: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(section):
        path, value = f"{prefix}{field.name}", getattr(section, field.name, None)
        if any(part in field.name for part in _VOLATILE):
            continue
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value


def shown(value: Any) -> str:
    """A value as one stable line: enumerations by name, dtypes and classes by name, long sequences by digest."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, type):
        return value.__qualname__
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(one)}" for key, one in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return shown(sorted(map(str, value)))
    if isinstance(value, list | tuple):
        members = [shown(one) for one in value]
        if len(members) > _LONG:
            digest = hashlib.blake2b(", ".join(members).encode(), digest_size=4).hexdigest()
            return f"{len(members)} members, digest {digest}"
        return "[" + ", ".join(members) + "]"
    return str(value)
