from __future__ import annotations

import enum

from harness.adapters.answers import counted, grouped, said, shown


class Backend(enum.Enum):
    AITER = "ROCm AITER"


class Key:
    """A quantization key."""


def test_inputs_with_one_answer_stand_together_and_the_commonest_answer_names_none() -> None:
    answers = [("base", "A > B"), ("lora", "B"), ("ep8", "A > B"), ("bias", "B"), ("dp8", "A > B")]
    assert grouped(answers) == "others: A > B | lora,bias: B"


def test_answers_that_are_all_the_same_are_said_of_all_and_a_single_one_of_its_name() -> None:
    assert grouped([("base", "A"), ("lora", "A")]) == "all: A"
    assert grouped([("base", "A")]) == "base: A"
    assert grouped([]) == ""


def test_one_other_answer_changes_the_line() -> None:
    answers = {"base": "A", "lora": "B", "ep8": "A"}
    for name in answers:
        assert grouped({**answers, name: "C"}.items()) != grouped(answers.items())


def test_answers_are_counted_and_the_digest_tells_which_input_has_which() -> None:
    once = counted([("a", "no"), ("b", "yes"), ("c", "yes")])
    assert once.startswith("no 1, yes 2 #")
    assert counted([("c", "yes"), ("a", "no"), ("b", "yes")]) == once
    assert counted([("a", "yes"), ("b", "no"), ("c", "yes")]) != once
    assert counted([("a", "yes"), ("b", "yes")]) == "yes"


def test_of_many_different_answers_the_number_is_said() -> None:
    assert counted([(str(number), str(number)) for number in range(20)]).startswith("20 answers #")


def test_a_reason_loses_what_stands_in_brackets_and_what_is_too_long() -> None:
    config = "kernel does not support parallel config Config(tp=1, key=Key(scale=Scale(f32)), ep=1)"
    assert said(config) == "kernel does not support parallel config Config"
    assert len(said("word " * 100)) <= 120


def test_an_answer_is_shown_without_addresses() -> None:
    key = Key()
    assert shown([Backend.AITER, None, 3], {}) == "[AITER None 3]"
    assert shown({"b", "a"}, {}) == "[a b]"
    assert shown(Key, {}) == "Key"
    assert shown(key, {key: "kMxfp4Static"}) == "kMxfp4Static"
    assert shown(key, {}) == "Key"
    assert shown({"not": "hashable"}, {}) == "dict"
