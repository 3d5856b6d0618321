"""vLLM's process groups of one rank among N, without the other processes.

In: how many ranks share each tensor and whether experts are spread over them. Out: vLLM's own groups of one process,
whose answers about size and members are those of rank 0 of N; a collective gives a result of the right shape. It must
not communicate: nothing here tells what the numbers would be.
"""

from __future__ import annotations

import importlib
from typing import Any

_STATE = "vllm.distributed.parallel_state"


def be_rank_0_of(tp: int, *, ep: bool) -> None:
    """Be rank 0 of ``tp`` ranks, until this is called again. vLLM's configuration must be set.

    Args:
        tp: tensor-parallel size.
        ep: whether the experts are spread over the same ranks.
    """
    import torch

    state = importlib.import_module(_STATE)
    if not torch.distributed.is_initialized():  # in memory: there is nobody to find
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    state.init_distributed_environment(world_size=1, rank=0, local_rank=0, backend="gloo")
    if state.model_parallel_is_initialized():
        state.destroy_model_parallel()
    state.initialize_model_parallel(1)
    groups = [state.get_tp_group()]
    if ep and getattr(state, "_EP", None) is not None:  # a model without experts has no such group
        groups.append(state.get_ep_group())
    for group in groups if tp > 1 else ():
        group.world_size = tp
        group.ranks = list(range(tp))
        group.device_communicator = ShapeCommunicator(tp)


class ShapeCommunicator:
    """What vLLM's groups ask of a device: collectives whose results have the right shape and no content."""

    disabled = False
    all2all_manager = None

    def __init__(self, size: int) -> None:
        self.world_size = size

    def destroy(self) -> None:
        """Nothing is held."""

    def all_reduce(self, tensor: Any) -> Any:
        """The sum over ranks, in the shape that it came in."""
        return tensor.clone()

    def all_gather(self, tensor: Any, dim: int = -1) -> Any:
        """All ranks' parts: dimension ``dim`` times the number of ranks."""
        return self._resized(tensor, dim, tensor.shape[dim] * self.world_size)

    def reduce_scatter(self, tensor: Any, dim: int = -1) -> Any:
        """This rank's part of the sum: dimension ``dim`` divided by the number of ranks."""
        return self._resized(tensor, dim, tensor.shape[dim] // self.world_size)

    def gather(self, tensor: Any, _to: int = 0, dim: int = -1) -> Any:
        """All parts: this is the rank that gets them."""
        return self.all_gather(tensor, dim)

    def _resized(self, tensor: Any, dim: int, size: int) -> Any:
        shape = list(tensor.shape)
        shape[dim] = size
        return tensor.new_empty(shape)
