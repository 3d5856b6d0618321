"""Registrations with torch. Namespaces are the tests' own, and begin as vLLM's do, which is what is forgiven."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from harness.model.errors import UnservableError
from harness.targets.torch_registry import Registrations, forgive_repeats

torch = pytest.importorskip("torch", reason="torch is not installed")
NUMBERS = itertools.count()
Recording = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def recording() -> Recording:
    """A block in which this folder's libraries are noted."""

    @contextmanager
    def block() -> Iterator[None]:
        registrations = Registrations([Path(__file__).parent])
        with closing(registrations), pytest.MonkeyPatch.context() as patch:
            registrations.install(patch)
            yield

    return block


@pytest.fixture
def namespace() -> str:
    return f"vllm_of_test_{next(NUMBERS)}"


def register(namespace: str, *schemas: str, adds: int = 1) -> None:
    library = torch.library.Library(namespace, "FRAGMENT")
    for schema in schemas:
        library.define(schema)
        library.impl(schema.partition("(")[0], lambda x: x + adds, "CompositeExplicitAutograd")
    torch.library._keep_alive.append(library)


def test_operators_are_gone_after_the_block_and_can_come_again(recording: Recording, namespace: str) -> None:
    for adds in (1, 2):
        with recording():
            register(namespace, "f(Tensor x) -> Tensor", adds=adds)
            assert getattr(torch.ops, namespace).f(torch.zeros(1)).item() == adds
        assert not hasattr(getattr(torch.ops, namespace), "f")


def test_overloads_that_torch_cannot_forget_are_kept_and_answer_anew(recording: Recording, namespace: str) -> None:
    schemas = ("f(Tensor x) -> Tensor", "f.inplace(Tensor(a!) x) -> Tensor")
    for adds in (1, 2):
        with recording():
            register(namespace, *schemas, adds=adds)
            assert getattr(torch.ops, namespace).f(torch.zeros(1)).item() == adds


def test_an_earlier_implementation_answers_again_after_the_block(recording: Recording, namespace: str) -> None:
    forgive_repeats()
    register(namespace, "f(Tensor x) -> Tensor", adds=1)
    with recording():
        register(namespace, "f(Tensor x) -> Tensor", adds=2)
        assert getattr(torch.ops, namespace).f(torch.zeros(1)).item() == 2
    assert getattr(torch.ops, namespace).f(torch.zeros(1)).item() == 1


def test_another_schema_for_a_kept_operator_is_refused(recording: Recording, namespace: str) -> None:
    register(namespace, "f(Tensor x) -> Tensor")
    with recording(), pytest.raises(UnservableError, match=f"{namespace}::f: the operator has another schema"):
        register(namespace, "f(Tensor x, int y) -> Tensor")


def test_nothing_is_forgiven_to_others(recording: Recording) -> None:
    with recording():
        register("of_test_others", "f(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError, match="multiple"):
            register("of_test_others", "f(Tensor x) -> Tensor")


def test_libraries_of_other_code_stay(namespace: str) -> None:
    registrations = Registrations([Path(__file__).parent / "elsewhere"])
    with closing(registrations), pytest.MonkeyPatch.context() as patch:
        registrations.install(patch)
        register(namespace, "f(Tensor x) -> Tensor")
    assert hasattr(getattr(torch.ops, namespace), "f")


def test_a_custom_operator_of_before_survives_its_double(recording: Recording, namespace: str) -> None:
    def make(adds: int) -> object:
        @torch.library.custom_op(f"{namespace}::g", mutates_args=())
        def g(x: torch.Tensor) -> torch.Tensor:
            return x + adds

        return g

    forgive_repeats()
    keep = make(1)
    with recording():
        double = make(2)
        assert getattr(torch.ops, namespace).g(torch.zeros(1)).item() == 2
    assert getattr(torch.ops, namespace).g(torch.zeros(1)).item() == 1
    assert keep is not double


def test_an_opaque_type_may_be_registered_again_by_vllm_only(recording: Recording) -> None:
    opaque = pytest.importorskip("torch._library.opaque_object", reason="this torch has no opaque types")

    def make(module: str) -> None:
        made = type("Name", (), {"__eq__": lambda *_: True, "__hash__": lambda _: 0, "__fx_repr__": lambda _: ("", {})})
        made.__module__ = module
        opaque.register_opaque_type(made, typ="value")

    with recording():
        make("vllm_of_test")
        make("vllm_of_test")
        make("of_test_others")
        with pytest.raises(RuntimeError, match="already registered"):
            make("of_test_others")
