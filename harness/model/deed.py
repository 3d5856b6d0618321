"""What the subject did to its process while it was watched. A plain fact: what it is worth is said elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Deed:
    """One thing that the subject did, and the place that did it."""

    what: str
    """``torch.cuda.get_device_properties``, ``HIP_VISIBLE_DEVICES=0``, ``aiter.ops.shuffle``."""
    by: str
    """``vllm/…/rocm.py:127 in _sync_hip_cuda_env_vars``, relative to the subject's tree."""
    importing: bool = False
    """Whether a module of the subject was being imported at that moment."""

    @property
    def symbol(self) -> str:
        """The function that did it; the file where it was a module's own code."""
        place, _, function = self.by.rpartition(" in ")
        return place.rpartition(":")[0] if function == "<module>" else function


@dataclass
class Deeds:
    """Everything that the subject did, by kind. The lists grow while the process lives."""

    initialised: list[Deed] = field(default_factory=list)
    """Calls that create a context on a real device."""
    vendor: list[Deed] = field(default_factory=list)
    """Imports of a vendor's package that can be switched off."""
    variables: list[Deed] = field(default_factory=list)
    """Environment variables set or taken away."""
