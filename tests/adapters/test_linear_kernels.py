from __future__ import annotations

import abc
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from harness.adapters import linear_kernels
from harness.adapters.linear_kernels import ask, classes_of, decide_linear_kernel
from harness.adapters.linear_requests import LINEAR, Question
from harness.model.cell import Cell, Surface
from harness.model.record import Category, Ended, Record

MODULE = f"{LINEAR}.some"
Answer = tuple[bool, str | None]

QUESTIONS = (
    Question("device", "None", "is_supported", (None,)),
    Question("device", "60", "is_supported", (60,)),
    Question("layer", "plain", "can_implement", ("plain",)),
    Question("layer", "odd", "can_implement", ("odd",)),
    Question("layer", "float32", "can_implement", ("float32",)),
    Question("scheme", "a", "_supports_quant_scheme", ("a", None)),
)


def kernel(name: str, base: type, module: str = MODULE, **members: Any) -> type:
    return type(name, (base,), {"__module__": module, **members})


def said(*cases: tuple[str, str]) -> Any:
    """A predicate that refuses each case in its own statement."""
    source = "def can_implement(cls, config):\n"
    source += "".join(f"    if config == {case!r}:\n        return False, {reason!r}\n" for case, reason in cases)
    space: dict[str, Any] = {}
    exec(source + "    return True, None\n", space)
    return classmethod(space["can_implement"])


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, stand_modules: Callable[..., None]) -> type:
    """An interface of kernels as vLLM's are, exported by a package that stands in for vLLM's."""

    class Root(abc.ABC):  # noqa: B024
        @classmethod
        def is_supported(cls, _number: int | None) -> Answer:
            return True, None

        can_implement = said()

    stand_modules({MODULE: {}, LINEAR: {"Root": Root}, "vllm": {"envs": types.SimpleNamespace(VLLM_ROCM_FAST=True)}})
    monkeypatch.setattr(linear_kernels, "questions_of", lambda _name: QUESTIONS)
    return Root


@pytest.fixture
def line(make_cell: Callable[..., Cell]) -> Callable[..., str]:
    """What the cell of the interface answers."""

    def answer(**scheme: str) -> str:
        asked = {"entry": "interface", "interface": "Root", **scheme}
        cell = make_cell("x", surface=Surface.LINEAR_KERNEL, scheme=asked)
        decision = decide_linear_kernel(cell)
        return str(decision.chosen or decision.detail)

    return answer


def test_classes_are_found_by_name_in_the_package_alone_and_abstract_ones_are_not_asked(root: type) -> None:
    kept = [kernel("Second", root), kernel("First", root), kernel("Ours", root, module="gfxloop.kernels")]
    kept.append(kernel("Inner", kept[0]))
    kept.append(kernel("Open", root, apply=abc.abstractmethod(lambda self: None)))
    assert [one.__name__ for one in classes_of("Root")] == ["First", "Inner", "Second"]


def test_a_class_is_told_by_what_most_questions_get_and_what_others_do(root: type, line: Callable[..., str]) -> None:
    _kept = kernel("Picky", root, can_implement=said(("odd", "K=7 is not divisible")))
    assert line() == "Picky: device yes; layer yes, but shape: odd"


def test_reasons_of_one_category_are_told_apart_by_the_statement_that_gave_them(
    root: type, line: Callable[..., str]
) -> None:
    two = (("odd", "group size 7"), ("float32", "group size 9"))
    _kept = kernel("Picky", root, can_implement=said(("plain", "group size 5"), *two))
    assert line() == "Picky: device yes; layer shape, but shape 2: odd; shape 3: float32"


def test_a_guard_that_is_dropped_changes_the_line_though_another_still_refuses(
    root: type, line: Callable[..., str]
) -> None:
    later = [(case, "the package is not installed") for case in ("plain", "odd", "float32")]
    guarded = kernel("Picky", root, can_implement=said(("odd", "K=7 is not divisible"), later[0], *later[2:]))
    before = line()
    guarded.can_implement = said(*later)  # type: ignore[attr-defined]
    assert line() != before


def test_a_reason_of_a_base_class_is_that_of_the_base_however_it_is_passed_on(root: type) -> None:
    base = kernel("Base", root, can_implement=said(("odd", "K=7 is not divisible")))

    class Child(base):  # type: ignore[misc, valid-type]
        @classmethod
        def can_implement(cls, config: str) -> Answer:
            able, reason = super().can_implement(config)
            return (able, reason) if not able else (config == "plain", "no float32")

    places = [ask(Child, QUESTIONS[at]).place for at in (3, 4)]
    assert places[0] == ask(base, QUESTIONS[3]).place
    assert places[0] != places[1]


def test_what_a_class_raises_off_its_platform_is_told_and_a_missing_package_by_name(
    root: type, line: Callable[..., str]
) -> None:
    def wants(cls: type, _number: int | None) -> Answer:
        raise ModuleNotFoundError("No module named 'cutlass'", name="cutlass")

    def fails(cls: type, _config: str) -> Answer:
        raise AttributeError("'NoneType' object at 0x7f00")

    _kept = kernel("Other", root, is_supported=classmethod(wants), can_implement=classmethod(fails))
    assert line() == "Other: device raises for want of cutlass; layer raises AttributeError"


def test_a_class_is_asked_again_with_the_package_that_it_looks_for(
    root: type, line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[MODULE]

    def gate() -> bool:
        return False

    monkeypatch.setattr(module, "has_fbgemm", gate, raising=False)

    def needs(cls: type, _number: int | None) -> Answer:
        here = module.has_fbgemm()
        return here, None if here else "fbgemm is not installed"

    _kept = kernel("Packed", root, is_supported=classmethod(needs))
    assert line() == "Packed: device package; layer, with has_fbgemm yes"
    assert module.has_fbgemm is gate


def test_a_class_is_asked_again_with_each_switch_turned_that_its_predicates_read(
    root: type, line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    class Switch:
        @property
        def VLLM_ROCM_FAST(self) -> bool:
            return os.environ.get("VLLM_ROCM_FAST", "1") == "1"

    envs = Switch()
    monkeypatch.setattr(sys.modules["vllm"], "envs", envs)

    def reads(cls: type, _number: int | None) -> Answer:
        return (True, None) if envs.VLLM_ROCM_FAST else (False, "environment variable")

    _kept = kernel("Switched", root, is_supported=classmethod(reads))
    assert line() == "Switched: device, layer yes; VLLM_ROCM_FAST=0 environment, but yes: layer plain"
    assert "VLLM_ROCM_FAST" not in os.environ


def test_tables_of_aiter_have_every_row_and_then_none_and_stay_as_they_are(
    root: type, line: Callable[..., str], stand_modules: Callable[..., None]
) -> None:
    class Gates:
        @staticmethod
        def is_a_gemm_tuned(_n: int, _k: int) -> bool:
            raise AssertionError("the real table is not asked")

    before = vars(Gates)["is_a_gemm_tuned"]
    stand_modules({"vllm._aiter_ops": {"rocm_aiter_ops": Gates}})

    def tuned(cls: type, _config: str) -> Answer:
        return (True, None) if Gates.is_a_gemm_tuned(1, 2) else (False, "no tuned configuration")

    _kept = kernel("AiterOne", root, can_implement=classmethod(tuned))
    assert line() == "AiterOne: device, layer yes; untuned yes, but tuned_table: layer plain"
    assert vars(Gates)["is_a_gemm_tuned"] is before


def test_a_kernel_made_of_two_is_asked_with_each_pair_of_answers(root: type, line: Callable[..., str]) -> None:
    class Either(root, abc.ABC):  # type: ignore[misc, valid-type]
        base_type: ClassVar[type]
        fallback_type: ClassVar[type]

        @classmethod
        def is_supported(cls, number: int | None) -> Answer:
            return cls.base_type.is_supported(number)

        @abc.abstractmethod
        def apply(self) -> None: ...

    Either.__module__ = MODULE
    told = line()
    assert told.startswith("Either: parts yes, but other: ")
    assert told.endswith("is_supported with fallback,is_supported with neither")
    assert [one.__name__ for one in classes_of("Root")] == ["Either"]


def test_a_warning_is_part_of_the_answer(root: type, line: Callable[..., str]) -> None:
    def warning_once(_message: str) -> None: ...

    def warns(cls: type, _number: int | None) -> Answer:
        warning_once("slow")
        return True, None

    _kept = kernel("Slow", root, is_supported=classmethod(warns))
    assert line() == "Slow: device yes and warns; layer yes"


def test_only_and_without_are_beginnings_of_names_and_none_left_is_unsupported(
    root: type, line: Callable[..., str]
) -> None:
    _kept = [kernel("AiterOne", root), kernel("HummingOne", root)]
    assert line(only="Aiter").startswith("AiterOne")
    assert "Humming" not in line(without="Humming")
    assert line(only="Marlin") == "this vLLM has no linear kernel Marlin below Root"
    assert line(interface="Absent") == "this vLLM has no linear kernel  below Absent"


def test_a_candidate_is_the_first_question_with_each_answer_and_a_reason_is_verbatim(
    root: type, make_cell: Callable[..., Cell]
) -> None:
    _kept = kernel("Picky", root, can_implement=said(("odd", "K=7 is not divisible")))
    scheme = {"entry": "interface", "interface": "Root"}
    decision = decide_linear_kernel(make_cell("x", surface=Surface.LINEAR_KERNEL, scheme=scheme))
    assert decision.ended is Ended.ANSWERED
    assert [(one.name, one.accepted, one.reason, one.category) for one in decision.candidates] == [
        ("Picky device None", True, "", None),
        ("Picky layer plain", True, "", None),
        ("Picky layer odd", False, "K=7 is not divisible", Category.SHAPE),
    ]


# ---- real vLLM


def test_every_cell_of_the_default_release_answers_on_gfx942(routed: Callable[..., dict[str, Record]]) -> None:
    where = {"targets": ["gfx942/MI300X"], "environments": ["aiter_off", "aiter_on"]}
    records = routed("0.33.0", {**where, "kernels": ["linear_kernel"]})
    assert {record.id: record.reason for record in records.values() if record.outcome != "passed"} == {}
    lines = {record.kernel: str(record.chosen) for record in records.values() if record.environment == "aiter_off"}
    assert "FbgemmNvFp4LinearKernel: device package; layer, with has_fbgemm_gpu yes" in lines["nvfp4_classes"]
    assert "mxfp4: " not in lines["select_mxfp4"].partition(";")[0]
    assert lines["select_mxfp8_bmm"].startswith("refuses")
    assert "MXFP4 ROCM: " in lines["linear_registries"]
