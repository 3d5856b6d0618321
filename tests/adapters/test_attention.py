from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.adapters import attention
from harness.adapters.attention import decide_attention
from harness.model.cell import Cell, Surface
from harness.model.record import Candidate, Ended, Outcome, Record

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]
Routed = Callable[..., dict[str, Record]]

PLATFORM = '''
class Platform:
    """A platform as vLLM writes them; ``said`` is what each backend answers, in the order of priority."""

    @classmethod
    def is_rocm(cls):
        return False

    @classmethod
    def get_valid_backends(cls, said, numbered):
        backend_priorities = list(MEMBERS)
        invalid_reasons, valid = {}, []
        for priority, backend in enumerate(backend_priorities):
            reasons = said[backend.name]
            if reasons:
                invalid_reasons[backend] = (priority, reasons) if numbered else reasons
            else:
                valid.append((backend, priority))
        return valid, invalid_reasons

    @classmethod
    def get_attn_backend_cls(cls, selected_backend, said, numbered=False, num_heads=None):
        if selected_backend is not None:
            if said == "tag":
                return selected_backend.get_path()
            reasons = AttentionBackend.validate_configuration()
            raise ValueError(f"Selected backend {selected_backend.name} is not valid. Reason: {reasons}")
        if isinstance(said, Exception):
            raise said
        if said == "deep":
            return deep()
        if said == "direct":
            return "vllm.v1.attention.backends.mla.XPUFlashAttnMLABackend"
        valid, invalid = cls.get_valid_backends(said, numbered)
        if not valid:
            raise ValueError("No valid attention backend found. Reasons: " + str(sorted(x.name for x in invalid)))
        return valid[0][0].get_path()


class AttentionBackend:
    @classmethod
    def validate_configuration(cls):
        return ["head_size not supported", "MLA not supported"]


def deep():
    raise ValueError("too many values to unpack")
'''


class Member:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_path(self) -> str:
        return f"vllm.backends.{self.name}Backend"


A, B, C = (Member(name) for name in "ABC")
SAID = {"A": ["dtype not supported", "sparse not supported"], "B": [], "C": []}


@pytest.fixture
def ask(stand_modules: Stand, make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Asks a platform that consists of what is given."""

    def decide(said: object, *, backend: str | None = None, numbered: bool = False) -> Any:
        names: dict[str, Any] = {"MEMBERS": (A, B, C)}
        exec(compile(PLATFORM, "/subject/vllm/platforms/some.py", "exec"), names)
        registry = types.SimpleNamespace(__members__={"A": A})
        stand_modules(
            {
                "vllm.platforms": {"current_platform": names["Platform"]()},
                "vllm.v1.attention.backend": {"AttentionBackend": names["AttentionBackend"]},
                "vllm.v1.attention.backends.registry": {"AttentionBackendEnum": registry},
                f"{attention.PREFILL}.base": {},
                f"{attention.PREFILL}.registry": {},
                "vllm.config": {},
            }
        )
        monkeypatch.setattr(attention, "gate_codes", dict)
        chosen = None if backend is None else A
        arguments = {"selected_backend": chosen, "said": said, "numbered": numbered}
        monkeypatch.setattr(attention, "question", lambda _: (names["Platform"].get_attn_backend_cls, arguments))
        scheme = {"entry": "layer", "head_size": 128, **({"backend": backend} if backend else {})}
        return decide_attention(make_cell(surface=Surface.ATTENTION, scheme=scheme))

    return decide


def _pairs(candidates: tuple[Candidate, ...]) -> list[tuple[str, bool | None, str]]:
    return [(item.name, item.accepted, item.reason) for item in candidates]


@pytest.mark.parametrize("numbered", [False, True])
def test_candidates_are_refused_with_vllm_s_words_taken_or_of_a_lower_priority(
    ask: Callable[..., Any], numbered: bool
) -> None:
    decision = ask(SAID, numbered=numbered)
    assert (decision.ended, decision.chosen, decision.symbol) == (
        Ended.ANSWERED,
        "BBackend",
        "Platform.get_attn_backend_cls",
    )
    assert _pairs(decision.candidates) == [
        ("ABackend", False, "dtype not supported; sparse not supported"),
        ("BBackend", True, ""),
        ("CBackend", None, ""),
    ]


def test_no_valid_backend_is_a_refusal_with_every_candidate(ask: Callable[..., Any]) -> None:
    decision = ask({name: ["dtype not supported"] for name in "ABC"})
    assert (decision.ended, decision.chosen) == (Ended.REFUSED, None)
    assert [item.accepted for item in decision.candidates] == [False] * 3


def test_a_refused_choice_names_the_backend_and_its_reasons(ask: Callable[..., Any]) -> None:
    decision = ask(SAID, backend="A")
    assert decision.ended is Ended.REFUSED
    assert decision.detail.startswith("Selected backend A is not valid")
    assert _pairs(decision.candidates) == [("AttentionBackend", False, "head_size not supported; MLA not supported")]


def test_a_platform_without_a_list_still_names_what_it_took(ask: Callable[..., Any]) -> None:
    decision = ask("direct")
    assert decision.chosen == "XPUFlashAttnMLABackend"
    assert _pairs(decision.candidates) == [("XPUFlashAttnMLABackend", True, "")]


@pytest.mark.parametrize("error", [ValueError, NotImplementedError, RuntimeError, AssertionError])
def test_an_error_of_the_selector_with_a_sentence_is_a_refusal(ask: Callable[..., Any], error: type[Exception]) -> None:
    decision = ask(error("Sparse Attention is not supported on CPU."))
    assert (decision.ended, decision.detail) == (Ended.REFUSED, "Sparse Attention is not supported on CPU.")


@pytest.mark.parametrize(
    "said", [NotImplementedError(), AssertionError(), KeyError("ROCM"), AttributeError("x"), "deep"]
)
def test_an_error_without_a_sentence_of_another_kind_or_from_deeper_is_none(
    ask: Callable[..., Any], said: object
) -> None:
    assert ask(said).ended is Ended.RAISED


def test_a_refusal_that_lists_nothing_says_it_of_the_user_s_choice() -> None:
    assert attention._candidates([], None) == ()


# ---- real releases


@pytest.fixture(scope="module")
def real(routed: Routed) -> dict[str, Record]:
    kernels = ["attention", "attention_backend"]
    on, off = (
        {"targets": ["gfx942/MI300X"], "environments": ["aiter_on"], "kernels": kernels},
        {"targets": ["gfx1100"], "environments": ["aiter_off"], "kernels": kernels},
    )
    return routed("0.33.0", on, off)


def test_nothing_crashes_and_every_undecided_row_says_why(real: dict[str, Record]) -> None:
    assert len(real) > 200
    assert not [record.id for record in real.values() if record.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT)]
    assert all(record.reason for record in real.values())
    assert not [
        item for record in real.values() for item in record.candidates if item.accepted is False and not item.reason
    ]


def _chosen(records: Mapping[str, Record], target: str, environment: str, kernel: str) -> str | None:
    return records[f"route/attention/{target}/{environment}/{kernel}"].chosen


def test_switches_and_features_move_the_choice(real: dict[str, Record]) -> None:
    here = ("gfx942.MI300X", "aiter_on")
    assert _chosen(real, *here, "gqa_sink") == "AiterFlashAttentionBackend"
    assert _chosen(real, *here, "gqa_sink_mha_off") == "RocmAiterUnifiedAttentionBackend"
    assert _chosen(real, *here, "gqa_mm_prefix") == "TritonAttentionBackend"
    assert _chosen(real, *here, "mla_off") == "TritonMLABackend"
    assert _chosen(real, *here, "vit_mha_off") == "TORCH_SDPA"
    assert _chosen(real, *here, "gqa_h128") == "RocmAttentionBackend"


def test_the_user_s_choice_of_aiter_is_refused_on_rdna3(real: dict[str, Record]) -> None:
    record = real["route/attention/gfx1100.RX7900XTX/aiter_off/as_ROCM_AITER_FA"]
    assert (record.chosen, record.outcome) == (None, Outcome.PASSED)
    assert [item.reason for item in record.candidates] == ["compute capability not supported"]


def test_a_switch_that_the_vision_selector_ignores_fails(routed: Routed) -> None:
    words = {"targets": ["gfx942/MI300X"], "environments": ["aiter_on"], "kernels": ["vit_mha_off"]}
    (record,) = routed("0.26.0", words).values()
    assert (record.outcome, record.chosen) == (Outcome.FAILED, "ROCM_AITER_FA")
    assert record.findings[0].symbol == "RocmPlatform.get_vit_attn_backend"
