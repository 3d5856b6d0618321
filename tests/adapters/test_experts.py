from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.adapters import experts
from harness.adapters.experts import QUANT_PAIRS, decide_experts
from harness.adapters.moe_config import CONFIG
from harness.matrix import Matrix
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record

MODULE = "vllm.model_executor.layers.fused_moe.experts.some"
INTERFACES = {"FusedMoEExperts", "FusedMoEExpertsModular", "FusedMoEExpertsMonolithic"}


class Routing(enum.IntEnum):
    Renormalize = 1
    DeepSeekV3 = 2


class Format(enum.Enum):
    Standard = 1
    BatchedExperts = 2


class Experts:
    """An experts class as vLLM's are."""

    keys: tuple[tuple[Any, Any], ...] = ((None, None), ("kFp8Static128BlockSym", "kFp8Dynamic128Sym"))
    monolithic = False

    @staticmethod
    def _supports_current_device() -> bool:
        return True

    @staticmethod
    def _supports_no_act_and_mul() -> bool:
        return False

    @staticmethod
    def _supports_activation(activation: str) -> bool:
        return activation == "SILU"

    @classmethod
    def _supports_quant_scheme(cls, weight: Any, activation: Any) -> bool:
        return (weight, activation) in cls.keys

    @staticmethod
    def _supports_parallel_config(config: Mapping[str, Any]) -> bool:
        return config.get("all2all") != "moonep"

    @staticmethod
    def _supports_routing_method(method: Routing, weight: Any, activation: Any) -> bool:
        return weight is None or method is Routing.DeepSeekV3

    @staticmethod
    def _supports_router_logits_dtype(dtype: Any, method: Routing) -> bool:
        return method is Routing.DeepSeekV3

    @staticmethod
    def _supports_shape(hidden: int) -> bool:
        return hidden % 128 == 0

    @staticmethod
    def _supports_batch_invariance() -> bool:
        return True

    @staticmethod
    def supports_lora() -> bool:
        return False

    @classmethod
    def is_monolithic(cls) -> bool:
        return cls.monolithic

    @staticmethod
    def activation_format() -> Format:
        return Format.Standard


class Whole(Experts):
    monolithic = True


class Narrower(Experts):
    keys = ((None, None),)


class Unasked(Experts):
    @staticmethod
    def _supports_activation(activation: str) -> bool:
        raise NotImplementedError("not yet used by an oracle")


class Broken(Experts):
    @staticmethod
    def _supports_current_device() -> bool:
        raise AttributeError("'NoneType' object has no attribute 'major'")


@pytest.fixture
def ask(
    stand_modules: Callable[..., None], make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Asks one of the classes above."""

    def decide(name: str, **scheme: str) -> Any:
        classes = {one.__name__: one for one in (Experts, Whole, Narrower, Unasked, Broken)}
        stand_modules({MODULE: classes, CONFIG: {"RoutingMethodType": Routing}})
        monkeypatch.setattr(experts, "_modules", lambda: dict.fromkeys(classes, MODULE))
        monkeypatch.setattr(experts, "activations", lambda: {"silu": "SILU", "gelu": "GELU", "relu2": "RELU2"})
        monkeypatch.setattr(experts, "quant_key", lambda key: key)
        monkeypatch.setattr(experts, "parallel_config", lambda **arguments: arguments)
        return decide_experts(make_cell(name, surface=Surface.EXPERTS, scheme=scheme))

    return decide


def test_what_a_class_accepts_is_one_line(ask: Callable[..., Any]) -> None:
    decision = ask("Experts")
    assert (decision.ended, decision.symbol) == (Ended.ANSWERED, "Experts")
    assert decision.chosen == (
        "device; no non_gated; activation=silu; scheme=none,fp8_block; deployment=all but moonep; no monolithic; "
        "hidden=all but 2880; invariant; no lora; no batched"
    )


def test_an_entry_taken_out_of_an_allowlist_changes_the_line(ask: Callable[..., Any]) -> None:
    assert ask("Narrower").chosen == str(ask("Experts").chosen).replace("scheme=none,fp8_block", "scheme=none")


def test_each_question_is_a_candidate_and_each_no_names_the_predicate(ask: Callable[..., Any]) -> None:
    asked = {one.name: (one.accepted, one.reason) for one in ask("Experts").candidates}
    assert asked["device"] == (True, "")
    assert asked["activation gelu"] == (False, "_supports_activation is False")
    assert asked["scheme fp8_block"] == (True, "")
    assert {f"scheme {name}" for name in QUANT_PAIRS} <= asked.keys()


def test_a_class_that_routes_by_itself_is_asked_for_each_method_with_each_scheme_it_takes(
    ask: Callable[..., Any],
) -> None:
    line = str(ask("Whole").chosen)
    assert "; routing=all but Renormalize[fp8_block]; " in line
    assert "; logits=bfloat16[DeepSeekV3],float32[DeepSeekV3]; " in line


def test_a_predicate_that_no_oracle_may_ask_is_unanswered_and_another_error_a_fault(ask: Callable[..., Any]) -> None:
    decision = ask("Unasked")
    assert "; activation unanswered; " in str(decision.chosen)
    reasons = {one.reason for one in decision.candidates if one.name.startswith("activation")}
    assert reasons == {"_supports_activation raises NotImplementedError: not yet used by an oracle"}
    assert ask("Broken").ended is Ended.RAISED


@pytest.mark.parametrize(("name", "chosen"), [("Experts", "accepted"), ("Narrower", "refused")])
def test_a_pair_of_keys_alone_is_accepted_or_refused(ask: Callable[..., Any], name: str, chosen: str) -> None:
    pair = {"weight": "kFp8Static128BlockSym", "activation": "kFp8Dynamic128Sym"}
    decision = ask("a_question", **pair, **{"class": name})
    assert (decision.chosen, decision.symbol) == (chosen, f"{name}._supports_quant_scheme")


def test_a_class_that_the_release_lacks_is_unsupported(
    ask: Callable[..., Any], make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("Absent").ended is Ended.UNSUPPORTED
    for package, ended in (("humming", Ended.UNSUPPORTED), ("vllm.humming", Ended.RAISED)):
        error = ModuleNotFoundError(f"No module named {package!r}", name=package)
        monkeypatch.setattr(experts, "_class", _raising(error))
        assert decide_experts(make_cell("Absent", surface=Surface.EXPERTS)).ended is ended


def _raising(error: Exception) -> Callable[..., Any]:
    def fails(*_arguments: object) -> Any:
        raise error

    return fails


def test_classes_are_found_in_whatever_module_of_the_package_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_modules: Callable[..., None]
) -> None:
    (tmp_path / "experts").mkdir()
    (tmp_path / "experts" / "some.py").write_text("class Experts:\n    class Inner: ...\n")
    package = types.ModuleType("package")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setattr(experts.importlib, "import_module", lambda _name: package)
    experts._modules.cache_clear()
    assert experts._modules() == {"Experts": MODULE}
    experts._modules.cache_clear()


# ---- the list in matrix.yaml


def test_the_matrix_names_every_class_of_the_default_release(matrix: Matrix, vllm_tree: Path) -> None:
    listed = {
        (str(cell.kernel.scheme.get("class", cell.kernel.name)), cell.kernel.scheme.get("module"))
        for cell in matrix.cells
        if cell.kernel.surface is Surface.EXPERTS
    }
    found = dict(_subclasses(vllm_tree))
    twice = {name for name, modules in found.items() if len(modules) > 1}
    expected = {name for name in found if not (name.startswith("_") or "Base" in name)} - INTERFACES
    assert expected - {name for name, _ in listed} == set()
    for name in twice & expected:
        assert {module for one, module in listed if one == name} == found[name]
    beside = {name: modules for name, modules in found.items() if not any(".fused_moe." in one for one in modules)}
    for name, modules in beside.items():
        assert {(name, module) for module in modules} <= listed


def _subclasses(tree: Path) -> Iterator[tuple[str, set[str]]]:
    """Every class below ``FusedMoEExperts``, with the modules that define one of its name."""
    bases: dict[str, set[str]] = {}
    modules: dict[str, set[str]] = {}
    for path in sorted((tree / "vllm").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Experts" not in text:
            continue
        module = ".".join(path.relative_to(tree).with_suffix("").parts)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                names = {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
                bases.setdefault(node.name, set()).update(names)
                modules.setdefault(node.name, set()).add(module)
    known = {"FusedMoEExperts"}
    while more := {name for name, of in bases.items() if of & known} - known:
        known |= more
    for name in sorted(known):
        yield name, modules.get(name, set())


# ---- real vLLM


def test_every_class_of_the_default_release_answers(routed: Callable[..., dict[str, Record]]) -> None:
    where = {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"]}
    records = routed("0.33.0", {**where, "kernels": ["experts"]})
    assert len(records) > 80
    odd = {record.id: record.reason for record in records.values() if record.outcome != "passed"}
    lacking = {key for key, reason in odd.items() if reason.startswith("this vLLM has no experts class")}
    assert odd.keys() == lacking, odd
    triton = str(records["route/experts/gfx942.MI300X/aiter_off/TritonExperts"].chosen)
    assert triton.startswith("device; non_gated; ")
    assert "fp8_block" in triton
    assert records["route/experts/gfx942.MI300X/aiter_off/BatchedTritonExperts_fp8_block"].chosen == "accepted"
