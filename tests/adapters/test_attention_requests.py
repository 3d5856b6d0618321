from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from harness.adapters.attention_requests import (
    Missing,
    class_name,
    first_of,
    member_of,
    question,
    run_around,
    selected,
)
from harness.matrix.schemes import ATTENTION
from harness.model.cell import Cell, Surface

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]

REGISTRY = "vllm.v1.attention.backends.registry"
SELECTOR = "vllm.v1.attention.selector"


class Member:
    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path

    def get_path(self) -> str:
        if not self.path:
            raise ValueError(f"Backend {self.name} must be registered before use")
        return self.path


ROCM = Member("ROCM_ATTN", "vllm.v1.attention.backends.rocm_attn.RocmAttentionBackend")
TAG = Member("TORCH_SDPA", "")
ENUM = types.SimpleNamespace(__members__={"ROCM_ATTN": ROCM, "TORCH_SDPA": TAG})


class Config(NamedTuple):
    head_size: int
    dtype: object
    kv_cache_dtype: str
    block_size: int | None
    has_sink: bool = False
    use_batch_invariant: bool = False


class Platform:
    def __init__(self, rocm: bool = True) -> None:
        self.is_rocm = lambda: rocm

    def get_attn_backend_cls(self, selected_backend: object, attn_selector_config: Config, num_heads: int) -> str:
        return "a.B"

    def get_vit_attn_backend(self, head_size: int, dtype: object, backend: object = None) -> object:
        return None


class OldPlatform(Platform):
    def get_attn_backend_cls(  # type: ignore[override]
        self,
        selected_backend: object,
        head_size: int,
        dtype: object,
        kv_cache_dtype: str,
        block_size: int | None,
        use_mla: bool,
        has_sink: bool,
        use_sparse: bool,
        attn_type: str | None = None,
    ) -> str:
        return "a.B"

    def get_vit_attn_backend(self, head_size: int, dtype: object) -> object:  # type: ignore[override]
        return None


@pytest.fixture
def release(stand_modules: Stand) -> Callable[..., None]:
    """Stands modules of a release around a platform."""

    def stand(platform: object, more: Mapping[str, Mapping[str, object]] | None = None) -> None:
        envs = types.SimpleNamespace(VLLM_BATCH_INVARIANT=True)
        modules: dict[str, dict[str, object]] = {
            "vllm": {"envs": envs},
            "vllm.platforms": {"current_platform": platform},
            REGISTRY: {"AttentionBackendEnum": ENUM},
            SELECTOR: {} if isinstance(platform, OldPlatform) else {"AttentionSelectorConfig": Config},
            "vllm.attention.selector": {},
            "vllm.config.cache": {},
            **{name: dict(body) for name, body in (more or {}).items()},
        }
        stand_modules(modules)

    return stand


@pytest.fixture
def layer(make_cell: Callable[..., Cell]) -> Callable[..., Cell]:
    return lambda **scheme: make_cell(surface=Surface.ATTENTION, scheme={"entry": "layer", "head_size": 128, **scheme})


# ---- the backend of a layer


def test_a_layer_becomes_vllm_s_own_configuration(release: Callable[..., None], layer: Callable[..., Cell]) -> None:
    release(Platform())
    entry, arguments = question(layer(sink=True, kv="fp8", backend="ROCM_ATTN", num_heads=8))
    assert entry(**arguments) == "a.B"
    config = arguments["attn_selector_config"]
    assert (config.head_size, config.kv_cache_dtype, config.block_size, config.has_sink) == (128, "fp8", None, True)
    assert (arguments["selected_backend"], arguments["num_heads"]) == (ROCM, 8)


def test_batch_invariance_is_the_environment_s(release: Callable[..., None], layer: Callable[..., Cell]) -> None:
    release(Platform())
    assert question(layer())[1]["attn_selector_config"].use_batch_invariant is True


def test_before_the_configuration_the_fields_are_arguments(
    release: Callable[..., None], layer: Callable[..., Cell]
) -> None:
    release(OldPlatform())
    entry, arguments = question(layer(sink=True))
    assert entry(**arguments) == "a.B"
    assert (arguments["has_sink"], arguments["use_mla"], arguments["head_size"]) == (True, False, 128)
    assert "num_heads" not in arguments


@pytest.mark.parametrize("platform", [Platform(), OldPlatform()])
def test_a_feature_that_the_release_has_no_word_for_is_missing_and_never_dropped(
    release: Callable[..., None], layer: Callable[..., Cell], platform: object
) -> None:
    release(platform)
    with pytest.raises(Missing, match="use_kv_connector in "):
        question(layer(kv_connector=True))


@pytest.mark.parametrize("key", ["kv", "run_kv"])
def test_a_kv_cache_dtype_of_a_later_release_is_missing(
    release: Callable[..., None], layer: Callable[..., Cell], key: str
) -> None:
    release(Platform())
    with pytest.raises(Missing, match="KV-cache dtype turboquant_k8v4"):
        question(layer(**{key: "turboquant_k8v4"}))


def test_a_backend_of_a_later_release_is_missing(release: Callable[..., None], layer: Callable[..., Cell]) -> None:
    release(Platform())
    with pytest.raises(Missing, match="attention backend ULTRAQUANT"):
        question(layer(backend="ULTRAQUANT"))


def test_no_choice_is_vllm_s_own(release: Callable[..., None], layer: Callable[..., Cell]) -> None:
    release(Platform())
    assert selected(layer()) is None
    assert selected(layer(backend="TORCH_SDPA")) is TAG


# ---- vision encoders, MLA prefill, paged attention


def test_what_the_vision_selector_kept_of_the_environment_is_forgotten(
    release: Callable[..., None], make_cell: Callable[..., Cell]
) -> None:
    forgotten = []
    available = types.SimpleNamespace(cache_clear=lambda: forgotten.append(1))
    release(Platform(), {"vllm.platforms.rocm": {"flash_attn_triton_available": available}})
    question(make_cell(scheme={"entry": "vision", "head_size": 64}))
    assert forgotten == [1]


def test_a_vision_encoder_without_a_choice_cannot_be_given_one(
    release: Callable[..., None], make_cell: Callable[..., Cell]
) -> None:
    release(OldPlatform(rocm=False))
    _, arguments = question(make_cell(scheme={"entry": "vision", "head_size": 64}))
    assert "backend" not in arguments
    with pytest.raises(Missing, match="backend in "):
        question(make_cell(scheme={"entry": "vision", "head_size": 64, "backend": "TORCH_SDPA"}))


PREFILL = "vllm.v1.attention.backends.mla.prefill"


def _prefill(dimensions: object, platform: object, cached: object = None) -> dict[str, dict[str, object]]:
    config = types.SimpleNamespace
    return {
        f"{PREFILL}.selector": {"MLAPrefillSelectorConfig": config, "_auto_select_mla_prefill_backend": cached},
        f"{PREFILL}.base": {} if dimensions is None else {"MLADimensions": dimensions},
    }


def test_prefill_sizes_are_asked_as_the_release_takes_them(
    release: Callable[..., None], make_cell: Callable[..., Cell]
) -> None:
    class New(Platform):
        def get_mla_prefill_backend_cls(self, mla_selector_config: Any) -> Any:
            return mla_selector_config

    cell = make_cell(scheme={"entry": "mla_prefill", "dims": "192/64/256"})
    release(New(), _prefill(types.SimpleNamespace, New()))
    config = question(cell)[1]["mla_selector_config"]
    assert vars(config.mla_dimensions) == {"qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256}
    release(New(), _prefill(None, New()))
    assert question(cell)[1]["mla_selector_config"].is_r1_compatible is False


def test_an_older_prefill_selector_is_asked_past_its_cache(
    release: Callable[..., None], make_cell: Callable[..., Cell]
) -> None:
    inner = object()

    class Old(Platform):
        def get_device_capability(self) -> tuple[int, int] | None:
            return (9, 4)

    release(Old(), _prefill(types.SimpleNamespace, Old(), types.SimpleNamespace(__wrapped__=inner)))
    entry, arguments = question(make_cell(scheme={"entry": "mla_prefill"}))
    assert (entry, arguments["device_capability"]) == (inner, (9, 4))


def test_prefill_without_a_selector_or_a_capability_is_missing(
    release: Callable[..., None], make_cell: Callable[..., Cell]
) -> None:
    class Bare(Platform):
        def get_device_capability(self) -> None:
            return None

    cell = make_cell(scheme={"entry": "mla_prefill"})
    release(Bare(), {f"{PREFILL}.selector": {}})
    with pytest.raises(Missing, match="selector of MLA prefill backends"):
        question(cell)
    release(Bare(), _prefill(types.SimpleNamespace, Bare()))
    with pytest.raises(Missing, match="without capability numbers"):
        question(cell)


def test_paged_attention_is_asked_past_its_cache_with_every_gate(
    release: Callable[..., None], make_cell: Callable[..., Cell]
) -> None:
    def asked(**arguments: object) -> Mapping[str, object]:
        return arguments

    wrapped = types.SimpleNamespace(__wrapped__=asked)
    release(Platform(), {"vllm.platforms.rocm": {"use_rocm_custom_paged_attention": wrapped}})
    scheme = {"entry": "paged", "head_size": 128, "block_size": 16, "gqa_ratio": 8, "window": 4096, "sink": True}
    entry, arguments = question(make_cell(scheme=scheme))
    said = entry(**arguments)
    assert (said["sliding_window"], said["max_seq_len"], said["kv_cache_dtype"]) == (4096, 8192, "auto")
    assert said["alibi_slopes"] is None
    assert said["sinks"] is not None


def test_paged_attention_of_no_platform_but_rocm(stand_modules: Stand, make_cell: Callable[..., Cell]) -> None:
    stand_modules({"vllm.platforms.rocm": {}})
    scheme = {"entry": "paged", "head_size": 128, "block_size": 16, "gqa_ratio": 8}
    with pytest.raises(Missing, match="use_rocm_custom_paged_attention"):
        question(make_cell(scheme=scheme))


def test_every_entry_of_the_matrix_has_a_question(release: Callable[..., None], make_cell: Callable[..., Cell]) -> None:
    release(Platform(), {"vllm.platforms.rocm": {}, f"{PREFILL}.selector": {}})
    asked = []
    for entry in ATTENTION:
        try:
            question(make_cell(scheme={"entry": entry, "head_size": 1, "block_size": 1, "gqa_ratio": 1}))
        except Missing:
            asked.append(entry)  # known, and this small release lacks what it asks for
        else:
            asked.append(entry)
    assert asked == list(ATTENTION)


# ---- the run around


def test_the_run_is_put_back_as_it_was(stand_modules: Stand, layer: Callable[..., Cell]) -> None:
    cache = types.SimpleNamespace(cache_dtype="auto")
    model = types.SimpleNamespace(
        attn_type="decoder", get_head_size=None, get_num_attention_heads=None, get_num_kv_heads=None
    )
    config = types.SimpleNamespace(cache_config=cache, model_config=model)
    stand_modules({"vllm.config": {"get_current_vllm_config": lambda: config}})
    before = (dict(vars(cache)), dict(vars(model)))
    with run_around(layer(run_kv="turboquant_k8v4", model_type="encoder_decoder")):
        assert (cache.cache_dtype, model.attn_type, model.get_head_size()) == (
            "turboquant_k8v4",
            "encoder_decoder",
            128,
        )
    assert (vars(cache), vars(model)) == before


def test_a_release_that_cannot_be_configured_is_asked_all_the_same(
    stand_modules: Stand, layer: Callable[..., Cell]
) -> None:
    stand_modules({"vllm.config": {}})
    asked = False
    with run_around(layer()):
        asked = True
    assert asked


# ---- names


def test_a_class_is_named_by_its_path_and_a_tag_by_itself(release: Callable[..., None]) -> None:
    release(Platform())
    assert [class_name(member_of(name)) for name in ("ROCM_ATTN", "TORCH_SDPA")] == [
        "RocmAttentionBackend",
        "TORCH_SDPA",
    ]


def test_the_first_module_that_has_a_name_wins(stand_modules: Stand) -> None:
    stand_modules({"one": {}, "two": {"thing": 2}, "three": {"thing": 3}})
    assert first_of(("one", "two", "three"), "thing") == 2
    assert first_of(("one",), "thing") is None
