"""A whole model: vLLM's own model class from a ``config.json`` alone, on the meta device, and what each layer got.

In: the text of a ``config.json``, a tensor-parallel size, and whether experts are spread over the same ranks. Out: a
``WholeModel``: the routes of its modules, and how far meta tensors carry it. What ends the build is told in vLLM's own
words. Weights are never read, memory is never allocated, and nothing of the configuration is guessed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.adapters.decision import Decision, raised
from harness.adapters.meta_device import on_meta_device
from harness.adapters.meta_forward import all_passes
from harness.adapters.meta_record import device_code
from harness.adapters.module_routes import module_routes
from harness.adapters.parallel_state import be_rank_0_of
from harness.adapters.watch import accepted_arguments
from harness.model.cell import Cell
from harness.model.errors import nearest
from harness.model.record import Ended
from harness.model.whole import Pass, WholeModel

MAX_MODEL_LEN = 4096
"""Tokens of the longest sequence that the model is built for: enough for every pass."""

_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
"""Sizes that transformers fills in silently where a ``config.json`` lacks them."""

_REFUSALS = (ValueError, NotImplementedError, AssertionError)
"""What vLLM raises with a sentence of its own (an assertion for sizes that do not divide); so do its RuntimeErrors."""

_FOREIGN = ("/torch/", "/triton/")
"""Files whose own exceptions say what this machine lacks, not what vLLM thinks of the model."""


Built = tuple[WholeModel, Callable[[], tuple[Pass, ...]]]
"""What was built, and what runs it on meta tensors."""


def import_what_every_model_needs() -> None:
    """Import the subject as far as no model decides."""
    importlib.import_module("vllm.engine.arg_utils")


@contextlib.contextmanager
def built(cell: Cell) -> Iterator[Built]:
    """Build the model of a cell's scheme (``config``, ``tp``, ``ep``); it can be run while the block lasts."""
    scheme = cell.kernel.scheme
    text, tp, ep = str(scheme["config"]), int(scheme["tp"]), bool(scheme["ep"])
    wrong = _unusable(json.loads(text))
    if wrong is not None:
        yield _told(wrong)
        return
    with contextlib.ExitStack() as stack:
        for context in (on_meta_device(), _inspecting_here()):
            stack.enter_context(context)
        try:
            config = stack.enter_context(_configured(stack.enter_context(_folder(text)), tp, ep=ep))
            be_rank_0_of(tp, ep=ep)
            model = construct(config)
            found: Built = _found(model), functools.partial(all_passes, model, config)
        except Exception as error:  # whatever it is, it is the observation
            found = _told(ending(error))
        yield found


def _found(model: Any) -> WholeModel:
    name = type(model).__name__
    return WholeModel(ended=Ended.ANSWERED, chosen=name, symbol=name, modules=module_routes(model))


def construct(config: Any) -> Any:
    """The model on the meta device, in the dtype of its configuration."""
    import torch
    from vllm.model_executor.model_loader.utils import initialize_model

    before = torch.get_default_dtype()
    torch.set_default_dtype(config.model_config.dtype)
    try:
        with torch.device("meta"):
            return initialize_model(config)
    finally:
        torch.set_default_dtype(before)


def ending(error: Exception) -> Decision:
    """What an exception says of the model: vLLM's refusal in its own words, a limit of the simulation, or a fault."""
    words = _words(error)
    what = raised(error)
    file = _innermost_file(error)
    if device_code(error) or any(part in file for part in _FOREIGN):
        return Decision(Ended.INDETERMINATE, symbol=what.symbol, detail=f"cannot tell. Here: {what.detail}")
    own = isinstance(error, RuntimeError) and "/vllm/" in file
    if (own or isinstance(error, _REFUSALS)) and words:
        return Decision(Ended.REFUSED, symbol=what.symbol, detail=words)
    return what


def _told(decision: Decision) -> Built:
    return WholeModel(ended=decision.ended, symbol=decision.symbol, detail=decision.detail), tuple


def _words(error: Exception) -> str:
    """vLLM's own sentence: pydantic puts its frame around what a configuration refuses."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error).strip()
    said = (str(item["msg"]) for item in errors())
    return "; ".join(words.removeprefix("Value error, ").removeprefix("Assertion failed, ") for words in said)


def _innermost_file(error: Exception) -> str:
    traceback, file = error.__traceback__, ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        traceback = traceback.tb_next
    return file


# ---- what a config.json must have


def _unusable(config: Mapping[str, Any]) -> Decision | None:
    """The first thing that keeps vLLM from knowing the model; ``symbol`` is the key at fault."""
    from vllm.model_executor.models import ModelRegistry

    known = ModelRegistry.get_supported_archs()
    if not any(name in known for name in config["architectures"]):
        first = str(config["architectures"][0])
        words = f"this vLLM knows no architecture {first}. {nearest(first, known)}"
        return Decision(Ended.UNSUPPORTED, symbol="architectures", detail=words.strip())
    missing = [names for names in _sizes(str(config["model_type"])) if not names & set(_keys(config))]
    if missing:
        key = " or ".join(sorted(missing[0]))
        return Decision(Ended.UNSUPPORTED, symbol=key, detail="a size of the model is missing")
    return None


def _sizes(model_type: str) -> list[set[str]]:
    """The sizes that a type of model has, each with the names that it goes by."""
    from transformers import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        return []  # a type of vLLM's own: vLLM says what it lacks
    kind: Any = CONFIG_MAPPING[model_type]
    names = ((size, kind.attribute_map.get(size, size)) for size in _SIZES)
    return [set(pair) for pair in names if hasattr(kind, pair[1])]


def _keys(value: Any) -> Iterable[str]:
    """Every key, at any depth: a multimodal model has its sizes in a ``text_config``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _keys(inner)


# ---- vLLM's configuration and groups


@contextlib.contextmanager
def _folder(text: str) -> Iterator[Path]:
    """A folder that holds the ``config.json`` and nothing else, below vLLM's own cache."""
    home = Path(os.environ.get("VLLM_CACHE_ROOT") or tempfile.gettempdir())
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix="model-") as name:
        (Path(name) / "config.json").write_text(text, encoding="utf-8")
        yield Path(name)


@contextlib.contextmanager
def _configured(folder: Path, tp: int, *, ep: bool) -> Iterator[Any]:
    """vLLM's configuration for the model: no compilation, no weights, no tokenizer."""
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs

    arguments = {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "enforce_eager": True,
        "max_model_len": MAX_MODEL_LEN,
        "tensor_parallel_size": tp,
        "enable_expert_parallel": ep,
        "distributed_executor_backend": "mp",  # otherwise vLLM counts the devices of this machine
    }
    config = EngineArgs(**accepted_arguments(EngineArgs, arguments)).create_engine_config()
    with set_current_vllm_config(config):
        yield config


@contextlib.contextmanager
def _inspecting_here() -> Iterator[None]:
    """vLLM looks at a model class in a process of its own, which would not be simulated: look at it in this one."""
    from vllm.model_executor.models import registry

    before = registry._run_in_subprocess
    registry._run_in_subprocess = lambda function: function()
    try:
        yield
    finally:
        registry._run_in_subprocess = before
