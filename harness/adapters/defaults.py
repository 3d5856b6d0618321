"""Engine defaults: what the platform decides for a configuration before a model is loaded.

In: a cell of surface ``defaults``, whose name is the question. ``MEMBER`` or ``MEMBER.ARGUMENT`` is an attribute or a
function of the platform object; ``field.PATH`` one field of the configuration that a run of defaults ends up with;
``section.NAME`` what the platform makes of a section of it; ``run.NAME`` what another run changes against it, and
``model.NAME`` what a model with certain features does; ``batch.RANKS`` batch sizes by usage; ``visible.LABEL`` which
physical device each rank gets under the cell's own variables; ``quick_reduce.RANKS.DTYPE``,
``custom_reduce.RANKS.DTYPE`` and ``custom_reduce_pcie.RANKS.DTYPE`` which sizes an all-reduce kernel takes. Nothing
here starts an engine or a process group, and the variables that vLLM sets on the way are put back.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from harness.adapters.all_reduce import custom_reduce_sizes, quick_reduce_sizes
from harness.adapters.decision import Decision, Missing, find, raised, unsupported
from harness.adapters.engine_config import configured, differing, shown, untouched, with_model
from harness.adapters.switches import kept_environment
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence

_ABSENT = object()

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

_CHECK = ".check_and_update_config"
"""The platform's own check of a configuration, which refuses with whatever type of exception."""

_RANKS = 2
"""How many ranks are asked for their device: the variables of the cells name two devices."""


def decide_default(cell: Cell) -> Decision:
    """Ask for one default."""
    with kept_environment():
        try:
            ask, _, rest = cell.kernel.name.partition(".")
            return _ASKS[ask](rest) if ask in _ASKS else _member(ask, str(cell.kernel.scheme.get("args", rest)))
        except Missing as missing:
            return unsupported(str(missing))
        except ImportError:
            raise  # of the surface's own module: the probe tells whose fault that is
        except (ValueError, NotImplementedError, IndexError) as error:
            return _refused(error)
        except RuntimeError as error:
            where = raised(error)
            return _refused(error) if where.symbol.endswith(_CHECK) else where
        except AttributeError as error:
            return _without_model(error)
        except Exception as error:  # the subject's own fault, whatever its type, is the observation
            return raised(error)


def _refused(error: Exception) -> Decision:
    """vLLM's own refusal: of a configuration in its validator's words, or of a member that a platform does not have."""
    where = raised(error)
    wrong = getattr(error, "errors", None)
    words = "; ".join(str(one["msg"]) for one in wrong()) if callable(wrong) else str(error)
    return Decision(Ended.REFUSED, symbol=where.symbol, detail=words or f"{where.symbol} is not implemented")


def _without_model(error: AttributeError) -> Decision:
    """Code of vLLM's configuration that takes a model for granted says nothing of a run without one."""
    where = raised(error)
    if error.obj is None and where.symbol.startswith("VllmConfig."):
        detail = f"cannot tell what a model adds: {where.detail}"
        return replace(where, ended=Ended.INDETERMINATE, detail=detail)
    return where


# ---- members of the platform object


def _member(name: str, words: str) -> Decision:
    member = _platform_member(name)
    symbol = getattr(member, "__qualname__", name)
    if not callable(member):
        return Decision(Ended.ANSWERED, shown(member), symbol)
    answer = shown(member(*map(_argument, words.split())))
    return Decision(Ended.ANSWERED, answer, symbol, evidence=(Evidence(question=f"{name}({words})", answer=answer),))


def _platform_member(name: str) -> Any:
    """The member. vLLM's Platform answers unknown names with None, so only its class is asked whether it has one."""
    platform = _current()
    if not hasattr(type(platform), name):
        raise Missing(f"platform member {name}")
    return getattr(platform, name)


def _current() -> Any:
    from vllm.platforms import current_platform

    return current_platform


def _argument(word: str) -> Any:
    """``torch.bfloat16``, ``config`` (a configuration of defaults), JSON (``80``, ``[0,1]``), or the word itself."""
    if word == "config":
        return configured("default")
    if word.startswith("torch."):
        import torch

        return getattr(torch, word.removeprefix("torch."))
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word


# ---- the configuration


def _field(path: str) -> Decision:
    value = configured("default")
    for name in path.split("."):
        value = getattr(value, name, _ABSENT)
        if value is _ABSENT:
            raise Missing(f"configuration field {path}")
    return Decision(Ended.ANSWERED, shown(value), path)


def _run(name: str) -> Decision:
    """Only what the run changes against the run of defaults, so that the line can be read."""
    return _changes(differing(configured(name), configured("default")))


def _model(name: str) -> Decision:
    """Only what the platform changes for a model with certain features."""
    return _changes(differing(with_model(name), with_model(None)))


def _section(name: str) -> Decision:
    """Only what the platform makes of one section of the run of defaults."""
    section = getattr(configured("default"), name, None)
    if section is None:
        raise Missing(f"configuration section {name}")
    return _changes(differing(section, untouched(section)))


def _changes(fields: Mapping[str, Any]) -> Decision:
    """``field=value; field=value``; whole values are evidence."""
    chosen = "; ".join(f"{path}={shown(value)}" for path, value in fields.items()) or "(none)"
    evidence = tuple(Evidence(question=path, answer=_whole(value)) for path, value in fields.items())
    return Decision(Ended.ANSWERED, chosen, "VllmConfig.__post_init__", evidence=evidence)


def _whole(value: Any) -> str:
    return str(value.name if isinstance(value, enum.Enum) else value)


def _batch(ranks: str) -> Decision:
    """Batched tokens and sequences where the user names none, for one rank: by device memory and name."""
    defaults = getattr(find("vllm.engine.arg_utils", "EngineArgs"), "get_batch_defaults", None)
    if defaults is None:
        raise Missing("EngineArgs.get_batch_defaults")
    tokens, sequences = defaults(int(ranks))
    chosen = "; ".join(
        f"{what} " + ", ".join(f"{usage.name}={size}" for usage, size in by_usage.items())
        for what, by_usage in (("tokens", tokens), ("sequences", sequences))
    )
    return Decision(Ended.ANSWERED, chosen, "EngineArgs.get_batch_defaults")


# ---- devices


def _visible(_label: str) -> Decision:
    """``0 -> 3, 1 -> 1; CUDA_VISIBLE_DEVICES=3,1``: the map of ranks to devices, and the variables after the import.

    vLLM levels the variables when it imports its platform; the cell's own are set after that, so its function is
    called again.
    """
    to_physical = _platform_member("device_id_to_physical_device_id")
    platform = sys.modules[type(_current()).__module__]
    level = getattr(platform, "_sync_hip_cuda_env_vars", None)  # only ROCm has variables of two names
    if level is not None:
        level()
    ranks = ", ".join(f"{rank} -> {to_physical(rank)}" for rank in range(_RANKS))
    kept = ", ".join(f"{name}={os.environ[name]}" for name in _VISIBLE if name in os.environ)
    return Decision(Ended.ANSWERED, f"{ranks}; {kept or 'none set'}", to_physical.__qualname__)


def _reduce(sizes: Callable[[int, str], tuple[str, str]], rest: str) -> Decision:
    ranks, dtype, *_ = rest.split(".")  # a further word tells cells of one question apart
    chosen, symbol = sizes(int(ranks), dtype)
    return Decision(Ended.ANSWERED, chosen, symbol)


_ASKS: Mapping[str, Callable[[str], Decision]] = {
    "field": _field,
    "run": _run,
    "model": _model,
    "section": _section,
    "batch": _batch,
    "visible": _visible,
    "quick_reduce": functools.partial(_reduce, quick_reduce_sizes),
    "custom_reduce": functools.partial(_reduce, custom_reduce_sizes),
    "custom_reduce_pcie": functools.partial(_reduce, functools.partial(custom_reduce_sizes, connected=False)),
}
