"""Tensors without memory that vLLM's code takes for tensors of the device, and a record of the operators they reach.

In: shapes and dtypes. Out: tensors that say ``is_cuda`` (on a platform that is one) and never ``is_meta``, and the
operators that were called on them. An operator that vLLM registers in Python (namespace ``vllm``) runs the function it
was registered with, so that what that one reaches is recorded too. Nothing of vLLM is replaced, nothing is computed.
"""

from __future__ import annotations

import functools
from typing import Any

LINEAR = "torch.nn.functional.linear"

_LINEAR = frozenset({"aten::linear", "aten::mm", "aten::addmm", "aten::matmul", "aten::bmm"})
"""What ``torch.nn.functional.linear`` is made of, by how deep it was caught."""


class Device:
    """Makes tensors, and keeps what they reach.

    Attributes:
        reached: operators in order: custom ones by their name (``_rocm_C::wvSplitK``), torch's matrix products by
            ``torch.nn.functional.linear``. Torch's other operators (views, casts) are left out.
    """

    def __init__(self) -> None:
        self.reached: list[str] = []

    def tensor(self, *shape: int, dtype: str = "bfloat16") -> Any:
        """A contiguous tensor of the device, without memory."""
        import torch

        return self.wrap(torch.empty(shape, dtype=getattr(torch, dtype), device="meta"))

    def wrap(self, value: Any) -> Any:
        """A meta tensor as one of the device; anything else as it is."""
        import torch

        return _kind()(value, self) if isinstance(value, torch.Tensor) and not isinstance(value, _kind()) else value

    def note(self, name: str) -> None:
        """Record one operator by its qualified name."""
        if not name.startswith("aten::") or name in _LINEAR:
            self.reached.append(LINEAR if name in _LINEAR else name)


@functools.cache
def _kind() -> Any:
    import torch
    from torch.utils._pytree import tree_leaves, tree_map
    from vllm.platforms import current_platform

    keys = torch._C.DispatchKeySet(torch._C._parse_dispatch_key(current_platform.dispatch_key))
    on_gpu = current_platform.is_cuda_alike()

    class DeviceTensor(torch.Tensor):  # type: ignore[misc]
        """Its device stays ``meta``: torch would look for the real one as soon as it is sliced."""

        is_cuda = property(lambda self: on_gpu)
        is_meta = property(lambda self: False)

        @staticmethod
        def __new__(cls: Any, plain: Any, home: Device) -> Any:
            strides, offset = plain.stride(), plain.storage_offset()
            made = torch.Tensor._make_wrapper_subclass(
                cls, plain.shape, strides=strides, storage_offset=offset, dtype=plain.dtype, device="meta"
            )
            made.plain, made.home = plain, home
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            if func.namespace == "vllm":
                return func.redispatch(keys, *args, **given)
            home = next(leaf.home for leaf in tree_leaves((args, given)) if isinstance(leaf, DeviceTensor))
            home.note(func._schema.name)
            plain_args, plain_given = tree_map(_plain, (args, given))
            return tree_map(home.wrap, func(*plain_args, **plain_given))

    def _plain(value: Any) -> Any:
        return value.plain if isinstance(value, DeviceTensor) else value

    return DeviceTensor
