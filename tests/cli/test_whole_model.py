"""``gfxloop explain --config``: what is wrong with a file is told with its place, and a model comes out whole."""

from __future__ import annotations

import json

import pytest

from harness.bundled import fixtures_dir
from harness.cli.whole_model import exit_code, read_config, target_named
from harness.model.errors import UsageError
from harness.model.record import Ended
from harness.model.whole import ModuleKind, ModuleRoute, WholeModel

MODELS = fixtures_dir() / "models"
GOOD = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/config.json")), ids=lambda path: path.parent.name)
def test_every_configuration_of_the_repository_can_be_read(path):
    assert json.loads(read_config(path))["architectures"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"architectures": ["A"],\n "model_type" "llama"}', r":2:15: not JSON: Expecting ':' delimiter"),
        ("[1]", r"expected a JSON object"),
        (json.dumps({"model_type": "llama"}), r"config.json: architectures: missing"),
        (json.dumps({**GOOD, "architectures": "A"}), r"config.json: architectures: missing or no list .*got 'A'"),
        (json.dumps({**GOOD, "architectures": []}), r"config.json: architectures"),
        (json.dumps({"architectures": ["A"]}), r"config.json: model_type: missing"),
    ],
)
def test_a_file_that_is_no_configuration_is_named_with_the_place(tmp_path, text, said):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        read_config(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"--config .*absent.json: cannot be read"):
        read_config(tmp_path / "absent.json")


def test_a_bare_gfx_target_stands_for_its_default_product_and_a_slip_is_told():
    assert target_named("gfx942").product == "MI300X"
    assert target_named("gfx942/MI308X").product == "MI308X"
    with pytest.raises(UsageError, match="Did you mean 'gfx942'"):
        target_named("gfx94")


def test_exit_codes_are_those_of_the_contract():
    some = ModuleRoute(name="a", count=1, kind=ModuleKind.LINEAR, module="M", method="", kernel="K")
    codes = {ended: exit_code(WholeModel(ended=ended)) for ended in Ended}
    assert codes[Ended.ANSWERED] == codes[Ended.REFUSED] == 0
    assert codes[Ended.RAISED] == codes[Ended.DIED] == codes[Ended.TIMED_OUT] == 1
    assert codes[Ended.INDETERMINATE] == 4
    assert exit_code(WholeModel(ended=Ended.INDETERMINATE, modules=(some,))) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--target", "gfx942"),
        ("--target", "gfx942", "--config", "a", "--model", "qwen3-0.6b"),
        ("--target", "gfx942", "--config", "a", "--kernel", "fp8"),
        ("--target", "gfx942", "--model", "qwen3-0.6b", "--ep"),
    ],
)
def test_a_model_comes_from_the_matrix_or_from_a_file_and_never_from_both(gfxloop, words):
    done = gfxloop("explain", *words)
    assert done.returncode == 2
    assert "either --model or --config" in done.stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["LlamaForCausalLN"]}, "architectures: this vLLM knows no architecture LlamaForCausalLN."),
        ({"hidden_size": None}, "config.json: hidden_size: a size of the model is missing"),
    ],
)
def test_what_the_subject_does_not_know_is_told_with_the_key(gfxloop, tmp_path, changes, said):
    config = json.loads(read_config(MODELS / "llama-3.1-70b" / "config.json"))
    config = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = gfxloop("explain", "--config", "config.json", "--target", "gfx942", versions=("0.33.0",))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_a_dense_model_is_built_and_runs_to_its_end(gfxloop):
    words = ("--config", MODELS / "qwen3-0.6b" / "config.json", "--target", "gfx942", "--env", "VLLM_ROCM_USE_AITER=0")
    done = gfxloop("explain", *words, "--json", versions=("0.33.0",))
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert (body["schema"], body["ended"], body["chosen"]) == (1, "answered", "Qwen3ForCausalLM")
    shapes = {module["name"]: (module["count"], module["kernel"], module["shape"]) for module in body["modules"]}
    assert shapes["model.layers.0-27.self_attn.qkv_proj"] == (28, "rocm_unquantized_gemm", [4096, 1024])
    assert [(one["name"], one["tokens"]) for one in body["passes"][1:6:4]] == [("prefill", 1), ("decode", 1)]
    assert all(one["ended"] == "answered" and one["layers_done"] == 28 for one in body["passes"])
    decode = {one["tokens"]: one["operators"] for one in body["passes"] if one["name"] == "decode"}
    assert "_rocm_C::wvSplitK" in decode[1]
    assert "_rocm_C::wvSplitK" not in decode[1024]


def test_a_size_that_does_not_divide_is_refused_in_vllm_s_own_words(gfxloop):
    words = ("--config", MODELS / "llama-3.1-70b" / "config.json", "--target", "gfx1201", "--tp", 7)
    done = gfxloop("explain", *words, versions=("0.33.0",))
    assert done.returncode == 0, done.stderr
    assert "refused: Total number of attention heads (64) must be divisible by tensor parallel size (7)." in done.stdout
