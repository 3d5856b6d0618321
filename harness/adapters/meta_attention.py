"""The batch that attention layers see: vLLM's own KV cache and metadata, for a batch without content.

In: a built model's configuration and the lengths of a batch. Out: what vLLM's runner hands to the model: caches bound
to each attention layer, metadata and slots by layer. All of it is made by vLLM's functions; only the lengths are real.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.adapters.decision import find
from harness.adapters.watch import accepted_arguments

_RUNNER = "vllm.v1.worker.gpu.attn_utils"
_PLANNING = "vllm.v1.core.kv_cache_planning"
_BACKENDS = "vllm.v1.attention.backends.utils"
_MEMORY = 64 << 30
"""Bytes that the KV cache may take: enough for any model at 4096 tokens; nothing is allocated."""


@dataclass(frozen=True)
class Cache:
    """The KV cache of a model, as vLLM laid it out."""

    config: Any
    groups: Any
    block_sizes: Any


@dataclass(frozen=True)
class Batch:
    """Sequences of equal length: ``new`` tokens each, after ``past`` tokens that are in the cache."""

    sequences: int
    new: int
    past: int

    @property
    def tokens(self) -> int:
        """Tokens of the batch."""
        return self.sequences * self.new


def cached(config: Any) -> Cache:
    """Lay out the KV cache, make the metadata builders, and bind a cache on the meta device to every layer."""
    import torch
    from vllm.platforms import current_platform

    runner = importlib.import_module(_RUNNER)
    device = torch.device("meta")
    current_platform.update_block_size_for_backend(config)
    workspace = find("vllm.v1.worker.workspace", "init_workspace_manager")
    if workspace is not None:
        workspace(device)
    layout = _planned(config, runner.get_kv_cache_spec(config))
    found = runner.init_attn_backend(layout, config, device)
    groups = next(item for item in found if isinstance(item, list) and item and isinstance(item[0], list))
    sizes = next((item for item in reversed(found) if isinstance(item, list) and item is not groups), None)
    older = "runner_kv_caches" in inspect.signature(runner.init_kv_cache).parameters  # vllm<0.30: and groups nested
    arguments = {
        "runner_kv_caches": [],
        "forward_context": config.compilation_config.static_forward_context,
        "kv_cache_config": layout,
        "attn_backends": found[0],  # vllm<0.28
        "attn_groups": groups if older else [group for inner in groups for group in inner],
        "device": device,
        "cache_dtype": config.cache_config.cache_dtype,
        "kernel_block_sizes": sizes,
        "vllm_config": config,
    }
    runner.init_kv_cache(**accepted_arguments(runner.init_kv_cache, arguments))
    return Cache(layout, groups, sizes)


def _planned(config: Any, specs: Mapping[str, Any]) -> Any:
    """What vLLM's engine plans for one worker: layout, groups of layers, number of blocks."""
    resolve = find(_BACKENDS, "resolve_kv_cache_layout")
    if resolve is not None:  # vllm<0.30: each backend has a layout of its own
        worker = importlib.import_module("vllm.v1.worker.worker_base")
        supported = worker.get_supported_kv_cache_layouts(worker.get_current_attn_backends(config))
        chosen = resolve(config, [[layout.name for layout in supported]], specs.values())
        worker.record_kv_cache_layout(config.cache_config, chosen.name)
    groups = find(_PLANNING, "get_global_kv_cache_groups")
    if groups is None:  # vllm<0.33: planned with the rest
        plan = find("vllm.v1.core.kv_cache_utils", "get_kv_cache_configs")(config, [specs], [_MEMORY])
    else:
        plan = find(_PLANNING, "get_kv_cache_configs")(config, [specs], [_MEMORY], groups(config, [specs]))
    return plan[0]


def attention_of(cache: Cache, batch: Batch) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Metadata and slot mapping of a batch, each by layer."""
    import torch

    runner = importlib.import_module(_RUNNER)
    starts = torch.arange(0, batch.tokens + 1, batch.new, dtype=torch.int32)
    length = batch.past + batch.new
    lengths = torch.full((batch.sequences,), length, dtype=torch.int32)
    specs = [group.kv_cache_spec for group in cache.config.kv_cache_groups]
    slots = torch.zeros((len(specs), batch.tokens), dtype=torch.int64)
    arguments = {
        "attn_groups": cache.groups,
        "num_reqs": batch.sequences,
        "num_tokens": batch.tokens,
        "query_start_loc_gpu": starts,
        "query_start_loc_cpu": starts,
        "max_query_len": batch.new,
        "seq_lens": lengths,
        "max_seq_len": length,
        "block_tables": [
            torch.zeros((batch.sequences, -(-length // spec.block_size)), dtype=torch.int32) for spec in specs
        ],
        "slot_mappings": slots,
        "kv_cache_config": cache.config,
        "seq_lens_cpu_upper_bound": lengths,
        "positions": torch.arange(batch.past, length).repeat(batch.sequences),
        "is_prefilling": torch.full((batch.sequences,), batch.new > 1),
    }
    metadata = runner.build_attn_metadata(**accepted_arguments(runner.build_attn_metadata, arguments))
    return metadata, runner.build_slot_mappings_by_layer(slots, cache.config)
