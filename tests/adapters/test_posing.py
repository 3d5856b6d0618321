from __future__ import annotations

import math
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters.atoms import Atom, atoms_of, is_cached, looks_into_aiter
from harness.adapters.posing import posed, situations, without_aiter

CODE = """
import functools

FLAG = True
lower = True
_GCN_ARCH = "gfx942"

def has_kernel(): return FLAG
def is_wide(size): return size > 8
def kernel_available() -> bool:
    import aiter
    return True
def kernel_or_none(size) -> "int | None":
    from aiter.ops import kernel
    return kernel(size)
def plain(): return lower

def direct(): return FLAG and lower and is_wide(3) and _GCN_ARCH
def asked(): return has_kernel() or kernel_available()
def through(): return plain() and late()
def late(): return FLAG

@functools.cache
def wrapped(): return FLAG

class Owner:
    FAST = False
    @classmethod
    def is_fast(cls): return cls.FAST
    @classmethod
    def is_good(cls): return cls.is_fast() and cls.FAST
    @staticmethod
    def find() -> bool:
        import aiter
        return True
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("vllm.posing")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    exec(compile(CODE, "vllm/posing.py", "exec"), vars(made))
    return made


def names(atoms):
    return [atom.name for atom in atoms]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("direct", ["FLAG", "_GCN_ARCH"]),  # no lower-case name, and nothing that needs an argument
        ("asked", ["has_kernel", "kernel_available"]),  # a predicate stands for all that it reads
        ("through", ["FLAG"]),  # a helper that is no predicate is looked through
        ("wrapped", ["FLAG"]),
        ("is_wide", []),
    ],
)
def test_atoms_are_what_a_function_reads(module, function, expected):
    assert names(atoms_of(getattr(module, function))) == expected


def test_flags_and_predicates_of_the_class_are_atoms_where_the_class_is_given(module):
    assert names(atoms_of(module.Owner.is_good)) == []
    assert sorted(names(atoms_of(module.Owner.is_good, module.Owner))) == ["FAST", "is_fast"]


def test_each_import_of_aiter_is_seen(module):
    seen = {name for name, value in vars(module).items() if callable(value) and looks_into_aiter(value)}
    assert seen == {"kernel_available", "kernel_or_none"}
    assert looks_into_aiter(module.Owner.find)


def atoms(sizes):
    home = types.SimpleNamespace()
    return [Atom(f"a{n}", home, tuple((str(v), v) for v in range(size))) for n, size in enumerate(sizes)]


@given(st.lists(st.integers(2, 4), max_size=6), st.integers(1, 80))
def test_situations_pose_every_atom_and_move_each_to_each_of_its_answers(sizes, most):
    every = situations(atoms(sizes), most)
    numbers = [tuple(index for _, index in one) for one in every]
    assert all(len(one) == len(sizes) for one in every)
    assert numbers[0] == (0,) * len(sizes)
    assert len(set(numbers)) == len(numbers)
    for place, size in enumerate(sizes):
        assert {one[place] for one in numbers} == set(range(size))
    if math.prod(sizes) <= most:
        assert len(every) == math.prod(sizes)


def test_posed_puts_back_what_stood_there_whatever_happens(module):
    home = types.SimpleNamespace(here=1)
    situation = ((Atom("here", home, (("2", 2),)), 0), (Atom("absent", home, (("3", 3),)), 0))

    def fails():
        with posed(situation):
            assert vars(home) == {"here": 2, "absent": 3}
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fails()
    assert vars(home) == {"here": 1}


def test_without_aiter_its_finders_answer_as_where_it_is_lacking(module):
    before = dict(vars(module))
    with without_aiter([module]):
        assert module.kernel_available() is False
        assert module.kernel_or_none(4) is None
        assert module.Owner.find() is False
        assert module.has_kernel() is True
    assert dict(vars(module)) == before
    with pytest.raises(ImportError):
        module.kernel_or_none(4)


def test_a_stand_in_that_answers_any_name_is_not_cached(module):
    class StandIn:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"{name}: device code")

    assert is_cached(module.wrapped)
    assert not is_cached(StandIn())
    assert not is_cached(module.direct)
