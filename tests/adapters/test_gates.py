from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

from harness.adapters import gates
from harness.adapters.gates import decide_gate, gate_codes, gate_evidence
from harness.adapters.watch import Returned, Watch
from harness.model.cell import Cell, Layer, Surface
from harness.model.record import Ended, Record

LAYER = Layer("o", 256, 512)


class Operations:
    """As ``rocm_aiter_ops``: class methods, some cached, some wrapped."""

    enabled = True

    @classmethod
    def is_enabled(cls) -> bool:
        return cls.enabled

    @classmethod
    @functools.cache
    def is_tuned(cls, n: int, k: int) -> bool:
        return n > k

    @classmethod
    def is_packed_tuned(cls, n: int, k_bytes: int) -> int:
        return k_bytes

    @classmethod
    def is_broken(cls) -> bool:
        raise NotImplementedError

    @classmethod
    def not_a_gate(cls) -> None: ...


@pytest.fixture(autouse=True)
def _operations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gates of ``Operations``, and no memory of them afterwards."""
    monkeypatch.setattr(gates, "_operations", lambda: Operations)
    monkeypatch.setattr(gates, "_fp8_dtype", lambda: "fp8")
    for cached in (gates._gate_names, gates.gate_codes):
        cached.cache_clear()
    yield
    for cached in (gates._gate_names, gates.gate_codes):
        cached.cache_clear()


def _gate(make_cell: Callable[..., Cell], name: str, layer: Layer | None = None) -> Cell:
    return make_cell(name, surface=Surface.TUNED_GATE if layer else Surface.AITER_GATE, layer=layer)


def test_a_gate_answers_yes_or_no_under_its_own_name(make_cell: Callable[..., Cell]) -> None:
    decision = decide_gate(_gate(make_cell, "is_enabled"))
    assert (decision.ended, decision.chosen, decision.symbol) == (Ended.ANSWERED, "True", "rocm_aiter_ops.is_enabled")
    assert decision.evidence[0].question == "is_enabled()"


def test_a_tuned_gate_is_asked_for_the_layer_s_shape_with_the_arguments_it_takes(
    make_cell: Callable[..., Cell],
) -> None:
    tuned = decide_gate(_gate(make_cell, "is_tuned", LAYER))
    assert (tuned.chosen, tuned.evidence[0].question) == ("False", "is_tuned(n=256, k=512)")
    packed = decide_gate(_gate(make_cell, "is_packed_tuned", LAYER))
    assert packed.evidence[0].question == "is_packed_tuned(n=256, k_bytes=256)"
    assert (packed.chosen, packed.evidence[0].answer) == ("True", "256")


def test_a_gate_that_the_release_lacks_is_unsupported(make_cell: Callable[..., Cell]) -> None:
    decision = decide_gate(_gate(make_cell, "is_of_the_future"))
    assert (decision.ended, decision.detail) == (
        Ended.UNSUPPORTED,
        "this vLLM has no gate rocm_aiter_ops.is_of_the_future",
    )


def test_a_release_without_aiter_s_operations_has_no_gate(
    make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "_operations", lambda: None)
    assert decide_gate(_gate(make_cell, "is_enabled")).ended is Ended.UNSUPPORTED
    assert gates.subject_reads_tables() is False
    assert gates.gate_codes() == {}
    gates.forget_gate_answers()


def test_a_gate_that_raises_is_an_observation(make_cell: Callable[..., Cell]) -> None:
    assert decide_gate(_gate(make_cell, "is_broken")).ended is Ended.RAISED


def test_every_gate_can_be_watched_and_nothing_else() -> None:
    assert set(gate_codes().values()) == {"is_enabled", "is_tuned", "is_packed_tuned", "is_broken"}


def test_a_watched_gate_is_evidence_with_its_shape() -> None:
    with Watch(gate_codes()) as watch:
        Operations.is_tuned(7168, 2048)
    assert [(item.question, item.answer) for item in map(gate_evidence, watch.returns)] == [
        ("rocm_aiter_ops.is_tuned(n=7168, k=2048)", "True")
    ]


def test_evidence_shows_the_shape_and_nothing_of_the_class() -> None:
    returned = Returned("is_tuned", None, {"cls": "x", "k": 2, "n": 1, "tensor": object(), "other": 3})
    assert gate_evidence(returned).question == "rocm_aiter_ops.is_tuned(n=1, k=2)"


# ---- real vLLM


def test_gates_obey_the_variable_and_the_target(routes: dict[str, Record]) -> None:
    gate = "route/aiter_gate/gfx942.MI300X/aiter_on/{}"
    assert routes[gate.format("is_enabled")].chosen == "True"
    assert routes[gate.format("is_linear_fp8_enabled")].chosen == "True"
    assert routes[gate.format("is_rdna_aiter_enabled")].chosen == "False"


def test_every_gate_of_the_matrix_is_known_to_some_release_that_is_served(
    routed: Callable[..., dict[str, Record]], routes: dict[str, Record]
) -> None:
    asked = {record.kernel: record.outcome for record in routes.values() if record.surface == "aiter_gate"}
    lacking = {name for name, outcome in asked.items() if outcome == "unsupported"}
    assert len(lacking) < len(asked) / 4
    assert not {name for name, outcome in asked.items() if outcome == "crashed"}


def test_the_gates_that_decide_are_evidence_of_a_linear_decision(routes: dict[str, Record]) -> None:
    record = routes["route/linear/gfx942.MI300X/aiter_on/fp8_block/qwen3-0.6b.tp1/qkv"]
    assert ("rocm_aiter_ops.is_linear_enabled()", "True") in {(item.question, item.answer) for item in record.evidence}
