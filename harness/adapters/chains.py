"""Fallback chains: who serves a linear layer when the kernels before are switched off.

In: a question about a layer. Out: ``A > B > C``, in the order in which vLLM would take them. vLLM's own variable
VLLM_DISABLED_KERNELS takes away one kernel after the other, so that every candidate is asked, not only those before
the first that fits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from harness.adapters.decision import Decision
from harness.adapters.switches import kept_environment
from harness.model.record import Candidate, Ended

_VARIABLE = "VLLM_DISABLED_KERNELS"
_SEPARATOR = " > "


def fallback_chain(ask: Callable[[], Decision]) -> Decision:
    """Ask again and again, each time without the kernel that was taken last."""
    taken: list[str] = []
    with kept_environment():
        while True:
            os.environ[_VARIABLE] = ",".join(taken)
            last = ask()
            if last.ended is not Ended.ANSWERED or last.chosen is None or last.chosen in taken:
                break
            taken.append(last.chosen)
    if not taken or last.ended is Ended.RAISED:
        return last
    return replace(
        last,
        ended=Ended.ANSWERED,
        chosen=_SEPARATOR.join(taken),
        detail="",
        candidates=tuple(_as_taken(item) if item.name in taken else item for item in last.candidates),
    )


def _as_taken(item: Candidate) -> Candidate:
    return Candidate(name=item.name, accepted=True)
