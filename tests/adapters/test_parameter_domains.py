from __future__ import annotations

from enum import Enum

import pytest

from harness.adapters import parameter_domains
from harness.adapters.parameter_domains import domain_of, inputs_of
from harness.adapters.posed_configs import Posed, changes, copied, posed_configs


class Kind(Enum):
    DENSE = 1
    SPARSE = 2


def decides(head_size: int, use_mla: bool, kind: Kind = Kind.DENSE, note: str = "") -> bool:
    return bool(head_size and use_mla and kind and note)


def wants_a_layer(head_size: int, layer: object) -> bool:
    return bool(layer)


def many(*anything: int, head_size: int, **more: int) -> bool:
    return bool(anything or head_size or more)


def test_every_combination_is_asked_where_there_are_few():
    inputs = inputs_of(decides, 100, {})
    sizes = parameter_domains._NUMBERS["head_size"]
    assert len(inputs) == len(sizes) * 2 * 2
    assert inputs[0] == ("128 no DENSE", {"head_size": 128, "use_mla": False, "kind": Kind.DENSE})


def test_one_thing_is_moved_at_a_time_where_there_are_many():
    inputs = dict(inputs_of(decides, 12, {}))
    plain = inputs.pop("plain")
    assert [sum(words[key] != plain[key] for key in plain) for words in inputs.values()] == [1] * len(inputs)
    assert {"head_size=64", "use_mla=yes", "kind=SPARSE"} <= set(inputs)


def test_two_things_are_moved_as_well_where_that_is_not_too_many():
    assert "head_size=64 use_mla=yes" in dict(inputs_of(decides, 35, {}))


def test_a_plain_value_of_the_class_stands_first_and_once():
    inputs = inputs_of(many, 100, {"head_size": 576})
    assert [word for word, _ in inputs].count("576") == 1
    assert inputs[0] == ("576", {"head_size": 576})


def test_a_parameter_without_a_domain_leaves_the_function_out_unless_it_has_a_default():
    assert inputs_of(wants_a_layer, 100, {}) == []
    assert "note" not in inputs_of(decides, 100, {})[0][1]


@pytest.mark.parametrize(
    ("name", "annotation", "expected"),
    [
        ("flag", "bool", ["no", "yes"]),
        ("use_it", "Any", ["no", "yes"]),
        ("thing", "Any", []),
        ("block_size", "int", ["16", "1"]),  # no None where the annotation has none
        ("block_size", "int | None", ["16", "None"]),
        ("dtype", "torch.dtype", ["bfloat16", "float16"]),
        ("kind", "Kind", ["DENSE", "SPARSE"]),
        ("kind", "Kind | None", ["None", "DENSE"]),
        ("x", "torch.Tensor", ["None", "bfloat16"]),
        ("vllm_config", "", ["None", "plain"]),
        ("gcn_arch", "str", ["gfx90a", "gfx942"]),
        ("unknown", "int", []),
    ],
)
def test_names_and_annotations_give_the_domain(name, annotation, expected):
    assert list(domain_of(name, annotation, decides))[:2] == expected


def test_a_posed_configuration_has_nothing_that_is_not_named():
    plain = posed_configs()["plain"]
    assert plain.cache_config.block_size == 16
    assert plain.speculative_config is None
    assert posed_configs()["no model"].model_config is None
    assert not hasattr(plain, "__len__")


def test_what_a_function_changes_of_its_own_copy_is_told():
    plain = posed_configs()["plain"]
    mine = copied(plain)
    mine.cache_config.block_size = 64
    mine.scheduler_config.is_new = True
    assert plain.cache_config.block_size == 16
    assert changes(plain, mine, {}) == "cache_config.block_size=64 scheduler_config.is_new=True"
    assert copied("auto") == "auto"


def test_names_of_configurations_tell_what_is_moved():
    configs = posed_configs()
    assert configs["cache_config.cache_dtype=fp8"].cache_config.cache_dtype == "fp8"
    assert isinstance(configs["parallel_config.decode_context_parallel_size=2"].parallel_config, Posed)
