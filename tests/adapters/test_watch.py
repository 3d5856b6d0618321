from __future__ import annotations

import functools
import sys

import pytest

from harness.adapters.watch import Watch, accepted_arguments, code_of


def double(n: int) -> int:
    total = n
    total += n
    return total


def fails(n: int) -> int:
    half = n / 0
    return int(half)


class Owner:
    @classmethod
    def of_class(cls) -> int:
        return 1

    @staticmethod
    def of_nothing() -> int:
        return 2

    @classmethod
    @functools.cache
    def kept(cls) -> int:
        return 3


@functools.lru_cache
def cached(n: int) -> int:
    return n


def _codes(*functions: object) -> dict[object, str]:
    return {code_of(function): function.__name__ for function in functions}  # type: ignore[arg-type, attr-defined]


def test_each_return_is_seen_with_its_value_and_variables_in_order() -> None:
    with Watch(_codes(double, cached)) as watch:  # type: ignore[arg-type]
        double(3)
        cached(4)
        double(5)
    assert [(one.name, one.value) for one in watch.returns] == [("double", 6), ("cached", 4), ("double", 10)]
    assert watch.returns[0].variables == {"n": 3, "total": 6}


def test_an_exception_is_a_return_of_none_with_the_variables_so_far() -> None:
    with pytest.raises(ZeroDivisionError), Watch(_codes(fails)) as watch:  # type: ignore[arg-type]
        fails(1)
    assert [(one.name, one.value, one.variables) for one in watch.returns] == [("fails", None, {"n": 1})]


def test_other_functions_are_not_watched() -> None:
    with Watch(_codes(double)) as watch:  # type: ignore[arg-type]
        Owner.of_nothing()
    assert watch.returns == []


def test_any_function_of_a_name_is_watched_and_each_return_knows_its_caller() -> None:
    def outer(backend: str) -> int:
        return double(len(backend))

    with Watch({}, frozenset({"double"})) as watch:
        outer("triton")
        fails_quietly()
    assert [(one.name, one.value, one.caller) for one in watch.returns] == [("double", 12, "outer")]
    assert watch.returns[0].surroundings["backend"] == "triton"


def fails_quietly() -> int:
    return Owner.of_nothing()


def test_the_profiler_that_was_there_is_back_afterwards() -> None:
    calls: list[str] = []

    def profiler(_frame: object, event: str, _argument: object) -> None:
        calls.append(event)

    sys.setprofile(profiler)
    try:
        with Watch({}):
            pass
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    "function", [Owner.of_class, Owner.of_nothing, Owner.kept, cached, double, Owner.__dict__["of_class"]]
)
def test_the_code_behind_any_wrapper_is_found(function: object) -> None:
    code = code_of(function)  # type: ignore[arg-type]
    assert code is not None
    assert code.co_name in ("of_class", "of_nothing", "kept", "cached", "double")


def test_a_c_function_has_no_code() -> None:
    assert code_of(len) is None


def test_a_release_gets_the_arguments_that_it_takes() -> None:
    def early(n: int, k: int) -> None: ...

    def late(n: int, *, extra: int) -> None: ...

    def all_of_them(**_kwargs: int) -> None: ...

    every = {"n": 1, "k": 2, "extra": 3}
    assert accepted_arguments(early, every) == {"n": 1, "k": 2}
    assert accepted_arguments(late, every) == {"n": 1, "extra": 3}
    assert accepted_arguments(all_of_them, every) == every
