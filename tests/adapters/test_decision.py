from __future__ import annotations

from harness.adapters.decision import raised, unsupported
from harness.model.record import Candidate, Ended

SUBJECT = """
class Selector:
    def choose(self):
        return self.ask()
    def ask(self):
        return outside()
"""


def _error(code: str, path: str) -> BaseException:
    def outside() -> None:
        raise KeyError("N=7")

    names = {"outside": outside}
    exec(compile(code, path, "exec"), names)
    try:
        names["Selector"]().choose()
    except KeyError as error:
        return error
    raise AssertionError


def test_an_error_names_the_innermost_frame_of_the_subject_without_this_machine_s_path() -> None:
    decision = raised(_error(SUBJECT, "/somewhere/tree/vllm/model_executor/selector.py"))
    assert decision.ended is Ended.RAISED
    assert decision.symbol == "Selector.ask"
    assert decision.detail == "KeyError: 'N=7', at vllm/model_executor/selector.py:6 in Selector.ask"
    assert decision.chosen is None


def test_an_error_from_outside_the_subject_has_no_symbol() -> None:
    decision = raised(_error(SUBJECT, "/somewhere/other/selector.py"))
    assert (decision.symbol, decision.detail) == ("", "KeyError: 'N=7'")


def test_the_innermost_vllm_of_a_path_counts() -> None:
    decision = raised(_error(SUBJECT, "/work/vllm/checkout/vllm/selector.py"))
    assert decision.detail.endswith("at vllm/selector.py:6 in Selector.ask")


def test_an_error_keeps_the_candidates_that_were_seen() -> None:
    candidate = Candidate(name="A", accepted=False, reason="no")
    assert raised(ValueError("x"), (candidate,)).candidates == (candidate,)


def test_what_a_release_lacks_is_said_in_words() -> None:
    decision = unsupported("gate rocm_aiter_ops.is_new")
    assert (decision.ended, decision.detail) == (Ended.UNSUPPORTED, "this vLLM has no gate rocm_aiter_ops.is_new")
