"""A device without memory: ``cuda`` means torch's ``meta`` device while a block runs, and nothing waits for streams.

In: nothing. Out: a torch in which code that names its device makes tensors of the right shape and no content. It must
not compute, and must not be used where another thread expects the real torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_ON_DEVICE = ("cuda", "xpu", "hip")


@contextlib.contextmanager
def on_meta_device() -> Iterator[None]:
    """Make tensors of the device meta tensors while the block runs."""
    import torch
    from torch.overrides import TorchFunctionMode

    class OnMeta(TorchFunctionMode):  # type: ignore[misc]
        """Every call of torch, with the device renamed."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = {key: _renamed(value) for key, value in (kwargs or {}).items() if key != "pin_memory"}
            name = getattr(func, "__name__", "")
            if name == "cuda":
                return args[0].to("meta")
            if name == "pin_memory":
                return args[0]
            return func(*(map(_renamed, args) if name == "to" else args), **named)

    before = _swapped(
        (torch.Tensor, "is_cuda", property(lambda tensor: tensor.device.type == "meta")),
        (torch.cuda, "Stream", Idle),
        (torch.cuda, "Event", Idle),
        (torch.cuda, "stream", lambda _stream: contextlib.nullcontext()),
        (torch.cuda, "current_stream", Idle),
        (torch._C, "_cuda_setStream", lambda **_options: None),
        (torch.cuda, "is_current_stream_capturing", lambda: False),
        (torch.cuda, "synchronize", lambda *_: None),
        (torch.accelerator, "synchronize", lambda *_: None),
    )
    try:
        with OnMeta():
            yield
    finally:
        _swapped(*before)


class Idle:
    """A stream or an event: it takes every call and does nothing."""

    cuda_stream = 0

    def __init__(self, *_args: object, **_options: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_options: None

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


_ABSENT = object()


def _swapped(*changes: tuple[Any, str, Any]) -> list[tuple[Any, str, Any]]:
    """Set attributes; what they were, to be set again."""
    before = []
    for owner, name, value in changes:
        before.append((owner, name, vars(owner).get(name, _ABSENT)))
        if value is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    return before


def _renamed(value: Any) -> Any:
    """The meta device for a device that has memory of its own; anything else as it is."""
    import torch

    if isinstance(value, torch.device):
        return torch.device("meta") if value.type in _ON_DEVICE else value
    if isinstance(value, str):
        return "meta" if value.partition(":")[0] in _ON_DEVICE else value
    return value
