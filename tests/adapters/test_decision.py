from __future__ import annotations

import pytest

from harness.adapters.decision import find, raised, unsupported
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
    decision = raised(_error(SUBJECT, "/home/vllm/checkout/vllm/selector.py"))
    assert decision.detail.endswith("at vllm/selector.py:6 in Selector.ask")


def test_an_error_keeps_the_candidates_that_were_seen() -> None:
    candidate = Candidate(name="A", accepted=False, reason="no")
    assert raised(ValueError("x"), (candidate,)).candidates == (candidate,)


def test_what_a_release_lacks_is_said_in_words() -> None:
    decision = unsupported("gate rocm_aiter_ops.is_new")
    assert (decision.ended, decision.detail) == (Ended.UNSUPPORTED, "this vLLM has no gate rocm_aiter_ops.is_new")


def test_a_module_that_the_release_lacks_is_no_fault(tmp_path, monkeypatch):
    (tmp_path / "subject_a").mkdir()
    (tmp_path / "subject_a" / "__init__.py").write_text("here = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find("subject_a", "here") == 1
    assert find("subject_a", "gone") is None
    assert find("subject_a.gone", "here") is None
    assert find("subject_absent.deep.module", "here") is None


def test_a_module_that_is_there_and_cannot_be_imported_is_a_fault_and_not_a_missing_capability(tmp_path, monkeypatch):
    (tmp_path / "subject_b.py").write_text("import subject_b_private_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="subject_b_private_part"):
        find("subject_b", "here")
