from __future__ import annotations

import pytest

from harness.model.deed import Deed, Deeds
from harness.targets.journal import Journal, Lookup, PrivateImport, SimulationLimit


def test_a_slice_holds_what_was_noted_inside_it_and_nothing_else() -> None:
    journal = Journal()
    journal.unknown.append("before")
    journal.lookups.append(Lookup("before", "no"))
    with journal.slice() as part:
        journal.unknown.append("inside")
        journal.private.append(PrivateImport("amdsmi", "vllm/a.py:1 in f"))
        assert part == Journal()
    journal.unknown.append("after")
    assert part == Journal(unknown=["inside"], private=[PrivateImport("amdsmi", "vllm/a.py:1 in f")])
    assert journal.unknown == ["before", "inside", "after"]


def test_a_slice_holds_the_deeds_that_were_done_inside_it() -> None:
    journal = Journal()
    journal.deeds.vendor.append(Deed("aiter", "vllm/a.py:1 in f"))
    with journal.slice() as part:
        journal.deeds.initialised.append(Deed("torch.cuda.current_device", "vllm/a.py:2 in f"))
    assert part.deeds == Deeds(initialised=[Deed("torch.cuda.current_device", "vllm/a.py:2 in f")])


def test_slices_nest_and_the_outer_one_has_it_all() -> None:
    journal = Journal()
    with journal.slice() as outer:
        journal.unknown.append("one")
        with journal.slice() as inner:
            journal.unknown.append("two")
    assert (outer.unknown, inner.unknown) == (["one", "two"], ["two"])


def test_a_slice_keeps_what_was_noted_before_an_exception() -> None:
    journal = Journal()
    with pytest.raises(SimulationLimit), journal.slice() as part:
        raise journal.limit("operator _C::gemm")
    assert part.unanswerable == ["what operator _C::gemm does"]


def test_a_limit_is_noted_even_when_nobody_raises_it() -> None:
    journal = Journal()
    error = journal.limit("operator _C::gemm")
    assert str(error) == "operator _C::gemm: device code, not available in a simulation"
    assert journal.unanswerable == ["what operator _C::gemm does"]
