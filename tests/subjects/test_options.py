from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.errors import UsageError
from harness.subjects.options import parse_env, parse_kind, parse_packages

KINDS = {"installed": "", "path": "DIR"}
KNOWN = ("flash_attn", "flashinfer")
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)


def test_a_kind_and_its_argument_are_split_at_the_first_colon() -> None:
    assert parse_kind("--subject", "path:a:b", KINDS) == ("path", "a:b")
    assert parse_kind("--subject", "installed", KINDS) == ("installed", "")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("instaled", "Did you mean 'installed'?"),
        ("", "Known: installed, path."),
        ("path", "path needs an argument (got 'path'; expected path:DIR)"),
        ("path:", "path needs an argument"),
        ("installed:here", "installed takes no argument"),
        ("installed:", "installed takes no argument"),
    ],
)
def test_a_wrong_spec_is_told_with_the_right_form(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_kind("--subject", spec, KINDS)
    assert str(caught.value).startswith("--subject: ")
    assert says in str(caught.value)


@given(st.dictionaries(NAMES, st.text()))
def test_every_environment_survives_being_written_and_parsed(env: dict[str, str]) -> None:
    words = [f"{name}={value}" for name, value in env.items()]
    assert parse_env(words) == env
    assert parse_env(words + words) == env


@pytest.mark.parametrize("word", ["A", "", "=1", "1A=1", "A B=1", "A-B=1", "Ä=1", "A\n=1"])
def test_a_word_that_is_no_variable_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=VALUE"):
        parse_env([word])


def test_one_variable_with_two_values_is_refused() -> None:
    with pytest.raises(UsageError, match="A is given twice with different values \\(got '1 and 2'"):
        parse_env(["A=1", "B=2", "A=2"])


@given(st.dictionaries(st.sampled_from(KNOWN), st.booleans()))
def test_every_choice_of_packages_survives_being_written_and_parsed(packages: dict[str, bool]) -> None:
    word = ",".join(("+" if present else "-") + name for name, present in packages.items())
    assert parse_packages(word, KNOWN) == packages


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("flash_attn", "a package needs a sign"),
        ("+flash_attn,", "a package needs a sign"),
        ("+flash_attn, -flashinfer", "a package needs a sign"),
        ("+flash-attn", "Did you mean 'flash_attn'?"),
        ("+", "Known: flash_attn, flashinfer."),
        ("+flash_attn,-flash_attn", "flash_attn is both present and absent"),
    ],
)
def test_a_wrong_list_of_packages_is_refused(word: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_packages(word, KNOWN)
    assert says in str(caught.value)
