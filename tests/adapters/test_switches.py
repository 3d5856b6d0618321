from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from harness.adapters import switches
from harness.adapters.switches import kept_environment, switched, turned, variables_of
from harness.model.cell import Cell


class Operations:
    """As ``rocm_aiter_ops``, which keeps what it read."""

    read = ""

    @classmethod
    def refresh_env_variables(cls) -> None:
        cls.read = os.environ.get("SWITCH", "unset")


@pytest.fixture(autouse=True)
def _operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "find", lambda *_: Operations)
    monkeypatch.setattr(switches, "forget_gate_answers", lambda: None)
    monkeypatch.setenv("SWITCH", "1")
    Operations.refresh_env_variables()


def test_a_cell_s_variables_hold_while_it_is_asked_and_what_vllm_kept_of_them_too(
    make_cell: Callable[..., Cell],
) -> None:
    cell = make_cell(scheme={"env": "SWITCH=0 OTHER=a,b"})
    assert variables_of(cell) == {"SWITCH": "0", "OTHER": "a,b"}
    with switched(cell):
        assert (os.environ["SWITCH"], os.environ["OTHER"], Operations.read) == ("0", "a,b", "0")
    assert (os.environ["SWITCH"], Operations.read) == ("1", "1")
    assert "OTHER" not in os.environ


def test_a_cell_without_variables_changes_nothing(make_cell: Callable[..., Cell]) -> None:
    Operations.read = "as it was"
    with switched(make_cell()):
        assert Operations.read == "as it was"


def test_a_variable_can_be_taken_away() -> None:
    with turned({"SWITCH": None}):
        assert Operations.read == "unset"
    assert Operations.read == "1"


def test_the_environment_is_put_back_when_the_question_raises() -> None:
    with kept_environment():
        os.environ["SWITCH"] = "2"
    assert os.environ["SWITCH"] == "1"
    with pytest.raises(ValueError, match="asked"), turned({"SWITCH": "2"}):
        raise ValueError("asked")
    assert (os.environ["SWITCH"], Operations.read) == ("1", "1")


def test_a_release_without_aiter_s_operations_has_nothing_to_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "find", lambda *_: None)
    with turned({"SWITCH": "0"}):
        assert Operations.read == "1"
