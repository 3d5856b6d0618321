"""A whole model as text."""

from __future__ import annotations

from harness.model.record import Ended
from harness.model.whole import ModuleKind, ModuleRoute, Pass, Stop, WholeModel
from harness.report.whole import same_passes, whole_model_lines

QKV = ModuleRoute(
    name="layers.0-3.qkv",
    count=4,
    kind=ModuleKind.LINEAR,
    module="QKVParallelLinear",
    method="Fp8LinearMethod",
    kernel="TritonKernel",
    shape=(64, 32),
)
HEAD = ModuleRoute(
    name="lm_head", count=1, kind=ModuleKind.EMBEDDING, module="ParallelLMHead", method="", kernel="", shape=(9, 32)
)
STOP = Stop(at="aiter.x", module="layers.0", words="device code")


def one(tokens: int, *operators: str, stops: tuple[Stop, ...] = ()) -> Pass:
    ended = Ended.INDETERMINATE if stops else Ended.ANSWERED
    return Pass(
        name="decode",
        tokens=tokens,
        ended=ended,
        layers_done=4,
        layers=4,
        stops=stops,
        operators=("aten::mm", *operators),
    )


def test_modules_are_lines_with_count_name_shape_and_what_they_got() -> None:
    lines = whole_model_lines(WholeModel(ended=Ended.ANSWERED, chosen="M", modules=(QKV, HEAD)))
    assert lines == [
        "  4 x layers.0-3.qkv  64x32  TritonKernel (Fp8LinearMethod)",
        "  1 x lm_head          9x32  ParallelLMHead",
    ]


def test_passes_that_reach_the_same_are_one_line_and_torch_s_own_operators_are_left_out() -> None:
    passes = (one(1, "_C::a"), one(8), one(64))
    assert [len(group) for group in same_passes(passes)] == [1, 2]
    lines = whole_model_lines(WholeModel(ended=Ended.ANSWERED, passes=passes))
    assert lines == [
        "decode of 1 tokens: ran to its end, 4 of 4 layers",
        "  reaches _C::a",
        "decode of 8, 64 tokens: ran to its end, 4 of 4 layers",
    ]


def test_a_stop_is_told_where_it_came_first_and_its_pass_is_no_pass() -> None:
    passes = (one(1, "_C::a", stops=(STOP,)), one(8, stops=(STOP,)))
    lines = whole_model_lines(WholeModel(ended=Ended.ANSWERED, passes=passes))
    assert lines[:2] == [
        "decode of 1 tokens: indeterminate, 4 of 4 layers",
        "  stop at aiter.x in layers.0: device code",
    ]
    assert lines[3:] == ["decode of 8 tokens: indeterminate, 4 of 4 layers"]


def test_a_refusal_comes_first_with_its_words_and_its_place() -> None:
    (line,) = whole_model_lines(WholeModel(ended=Ended.REFUSED, detail="No backend", symbol="select"))
    assert line == "refused: No backend (at select)"


def test_what_was_assumed_is_listed() -> None:
    lines = whole_model_lines(WholeModel(ended=Ended.ANSWERED, unknown=("whether AITER has x",)))
    assert lines[-1] == "  whether AITER has x"
