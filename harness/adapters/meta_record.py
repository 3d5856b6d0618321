"""What a pass over meta tensors reaches: operators, Triton kernels, and what stops it.

In: code of the subject that runs on meta tensors. Out: a ``Recording`` of the operators and Triton kernels in the order
of their first calls. An operator that vLLM registers in Python runs the function that it was registered with, so that
what it reaches is recorded too; where that cannot go on, vLLM's own fake implementation says the shape. A Triton kernel
is noted and not launched: its results are buffers that exist already. It must not compute anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.adapters.decision import raised
from harness.model.whole import Stop

_DEVICE_CODE = "device code, not available in a simulation"
"""What a stand-in says when it is called (see ``harness.targets.journal``)."""


@dataclass
class Recording:
    """Notes of one pass."""

    reached: dict[str, None] = field(default_factory=dict)
    """Operators and kernels, in the order of their first call."""
    stops: list[Stop] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    """Names of the modules that are running, outermost first."""
    stopped: list[str] = field(default_factory=list)
    """Names of all modules that something stopped in."""
    unprocessed: tuple[str, ...] = ()
    """Modules whose weights could not be processed: what stops there is a consequence."""

    def note(self, name: str) -> None:
        """Note an operator or a kernel."""
        self.reached.setdefault(name)

    def stop(self, at: str, error: BaseException) -> None:
        """Note what cannot be decided, once for each operator and reason."""
        module = self.running[-1] if self.running else ""
        self.stopped.append(module)
        words = raised(error).detail.strip()
        if module and any(_together(module, name) for name in self.unprocessed):
            words = "its weights could not be processed"
        if not any((stop.at, stop.words) == (at, words) for stop in self.stops):
            self.stops.append(Stop(at=at, module=module, words=words))


def _together(module: str, unprocessed: str) -> bool:
    """Whether a module holds one whose weights were not processed, or is one of its siblings."""
    parent = unprocessed.rpartition(".")[0]
    return f"{unprocessed}.".startswith(f"{module}.") or f"{module}.".startswith(f"{parent}.")


@contextlib.contextmanager
def recorded(recording: Recording) -> Iterator[None]:
    """Record while the block runs."""
    with _launches(recording), _mode(recording):
        yield


def device_code(error: BaseException) -> str:
    """Which function of a stand-in ``error`` says was called; empty for any other error."""
    words = str(error)
    return words.partition(":")[0] if words.endswith(_DEVICE_CODE) else ""


@contextlib.contextmanager
def _launches(recording: Recording) -> Iterator[None]:
    """Triton's launchers note the kernel."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    def note(self: Any, *_args: object, **_options: object) -> None:
        function = getattr(self, "base_fn", None) or getattr(self, "fn", self)
        recording.note(f"triton::{function.__name__}")

    before = [(kind, kind.run) for kind in (Autotuner, JITFunction)]
    try:
        for kind, _ in before:
            kind.run = note
        yield
    finally:
        for kind, run in before:
            kind.run = run


def _mode(recording: Recording) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map
    from vllm.platforms import current_platform

    keys = torch._C.DispatchKeySet(torch._C._parse_dispatch_key(current_platform.dispatch_key))

    def on_meta(value: Any) -> Any:
        return value.to("meta") if isinstance(value, torch.Tensor) and value.device.type == "cpu" else value

    class Records(TorchDispatchMode):  # type: ignore[misc]
        """Sees every operator, of torch and of vLLM alike."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            recording.note(func._schema.name)
            tensors = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, torch.Tensor)]
            kinds = {tensor.device.type for tensor in tensors}
            if func.namespace == "vllm":
                return self._through(func, args, given)
            if len(kinds) > 1 and func._schema.name not in _ACROSS:
                args, given = tree_map(on_meta, (args, given))
            return func(*args, **given)

        def _through(self, func: Any, args: Any, given: Any) -> Any:
            """The function behind an operator of vLLM's; its fake implementation where that cannot go on."""
            try:
                with self:
                    return func.redispatch(keys, *args, **given)
            except Exception as error:  # whatever it met, the pass may go on with the shape
                reached = device_code(error)
                if reached:
                    recording.note(reached)
                else:
                    recording.stop(func._schema.name, error)
            return func(*tree_map(on_meta, args), **tree_map(on_meta, given)) if func._schema.returns else None

    return Records()


_ACROSS = frozenset({"aten::copy_", "aten::_to_copy"})
"""Operators that take tensors of two devices."""
