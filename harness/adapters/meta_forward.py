"""A built model run on meta tensors: post-processing of its weights, then forward passes of several sizes.

In: a model that vLLM built without weights, and its configuration. Out: a ``Pass`` each: the operators reached, and
what could not be decided. Nothing is computed, so nothing here says that a number is right.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.adapters.equal_layers import layer_names, repeated, run_once
from harness.adapters.meta_attention import Batch, Cache, attention_of, cached
from harness.adapters.meta_record import Recording, device_code, recorded
from harness.adapters.watch import accepted_arguments
from harness.model.record import Ended
from harness.model.whole import Pass, Phase

TOKENS = (1, 8, 64, 1024)
"""Sizes of the batches, in tokens: one sequence, two sizes of a decode batch, and a prompt."""

PAST = 512
"""Tokens in the cache before a decode pass."""

_SMALL = 4096
"""Elements up to which a scale is a real tensor, since code may read its value."""

_SCALES = ("scale", "zero_point")


def all_passes(model: Any, config: Any) -> tuple[Pass, ...]:
    """Post-processing of the weights, then the forward passes. Of equal layers two are processed and run."""
    repeats = repeated(model)
    weights, unprocessed = _weights(model, config, repeats)
    return (weights, *_forwards(model, config, repeats, unprocessed))


def _weights(model: Any, config: Any, repeats: Mapping[str, str]) -> tuple[Pass, tuple[str, ...]]:
    """Run vLLM's post-processing of the weights. A module that cannot be processed does not keep the others from it."""
    import torch
    from vllm.model_executor.model_loader.utils import process_weights_after_loading

    recording = Recording()
    _make_scales_real(model)
    with recorded(recording), _guarded(model, repeats, recording):
        try:  # `cpu`: nothing is to be moved
            process_weights_after_loading(model, config.model_config, torch.device("cpu"))
        except Exception as error:  # the subject's own fault or a limit of meta tensors: told, not raised
            recording.stop(device_code(error) or "process_weights_after_loading", error)
    layers = len(layer_names(model))
    return _pass("weights", 0, recording, layers, layers), tuple(recording.stopped)


def _forwards(model: Any, config: Any, repeats: Mapping[str, str], unprocessed: tuple[str, ...]) -> tuple[Pass, ...]:
    """One prefill and one decode pass for each batch size.

    Where the metadata of the attention backend cannot be made, the passes run without, as vLLM's own profiling run
    does: attention then ends at its backend, and every pass has the stop.
    """
    recording = Recording()
    cache: Cache | None = None
    with recorded(recording):
        try:
            cache = cached(config)
        except Exception as error:  # told as a stop of every pass
            recording.stop(device_code(error) or "KV cache", error)
    batches = [(Phase.PREFILL, Batch(1, tokens, 0)) for tokens in TOKENS]
    batches += [(Phase.DECODE, Batch(tokens, 1, PAST)) for tokens in TOKENS]
    passes = []
    for phase, batch in batches:
        notes = Recording(stops=list(recording.stops), unprocessed=unprocessed)
        with run_once(model, repeats):
            done = _forward(model, config, cache, batch, notes)
        passes.append(_pass(phase, batch.tokens, notes, done, len(layer_names(model))))
    return tuple(passes)


def _forward(model: Any, config: Any, cache: Cache | None, batch: Batch, recording: Recording) -> int:
    """Run one batch; how many layers ran to their end."""
    import torch
    from vllm.forward_context import set_forward_context

    done: set[str] = set()
    ids = torch.empty(batch.tokens, dtype=torch.int64, device="meta")
    with recorded(recording), _followed(model, recording, done), torch.inference_mode():
        metadata, slots = _batch(cache, batch, recording)
        try:
            arguments = {"num_tokens": batch.tokens, "slot_mapping": slots}
            with set_forward_context(metadata, config, **accepted_arguments(set_forward_context, arguments)):
                hidden = model(input_ids=ids, positions=ids)
                model.compute_logits(hidden[0] if isinstance(hidden, tuple) else hidden)
        except Exception as error:  # the subject's own fault or a limit of meta tensors: told, not raised
            recording.stop(device_code(error) or _operator(error), error)
    return len(done & set(layer_names(model)))


def _batch(cache: Cache | None, batch: Batch, recording: Recording) -> tuple[Any, Any]:
    """Attention metadata and slots; neither where they cannot be made."""
    if cache is None:
        return None, None
    try:
        return attention_of(cache, batch)
    except Exception as error:  # told, not raised
        recording.stop(device_code(error) or "attention metadata", error)
    return None, None


def _operator(error: BaseException) -> str:
    """The operator that torch says has no kernel for meta tensors; else the exception's own name."""
    found = re.search(r"[\w.]+::[\w.]+", str(error))
    return found.group() if found else type(error).__name__


def _pass(name: str, tokens: int, recording: Recording, done: int, layers: int) -> Pass:
    return Pass(
        name=name,
        tokens=tokens,
        ended=Ended.INDETERMINATE if recording.stops else Ended.ANSWERED,
        layers_done=done,
        layers=layers,
        stops=tuple(recording.stops),
        operators=tuple(recording.reached),
    )


def _make_scales_real(model: Any) -> None:
    """Scales that code may read become ones on the CPU; they are converted where they meet a meta tensor."""
    import torch

    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.numel() <= _SMALL and any(word in name for word in _SCALES):
                ones = torch.ones(parameter.shape, dtype=parameter.dtype, device="cpu")
                real = torch.Tensor._make_subclass(type(parameter), ones, False)
                vars(real).update(vars(parameter))  # what vLLM's own kinds of parameters know of themselves
                module._parameters[name] = real


@contextlib.contextmanager
def _guarded(model: Any, repeats: Mapping[str, str], recording: Recording) -> Iterator[None]:
    """Every module's post-processing notes its own failure and lets the others go on."""
    guarded: list[Any] = []
    below = tuple(f"{name}." for name in repeats)
    for name, module in model.named_modules():
        for owner in (getattr(module, "quant_method", None), module):
            process = getattr(owner, "process_weights_after_loading", None)
            if owner is None or process is None or owner in guarded:
                continue
            skipped = name.startswith(below)
            owner.process_weights_after_loading = _guard((lambda *_: None) if skipped else process, name, recording)
            guarded.append(owner)
    try:
        yield
    finally:
        for owner in guarded:
            vars(owner).pop("process_weights_after_loading", None)


def _guard(process: Callable[..., Any], name: str, recording: Recording) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> None:
        recording.running.append(name)
        try:
            process(*arguments, **options)
        except Exception as error:  # told, not raised
            recording.stop(device_code(error) or _operator(error), error)
        finally:
            recording.running.pop()

    return run


@contextlib.contextmanager
def _followed(model: Any, recording: Recording, done: set[str]) -> Iterator[None]:
    """Note which modules are running and which ran to their end."""
    names = {id(module): name for name, module in model.named_modules()}

    def begins(module: Any, _arguments: Any) -> None:
        recording.running.append(names[id(module)])

    def ends(module: Any, _arguments: Any, _output: Any) -> None:
        done.add(recording.running.pop())

    hooks = [module.register_forward_pre_hook(begins) for _, module in model.named_modules()]
    hooks += [module.register_forward_hook(ends) for _, module in model.named_modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
