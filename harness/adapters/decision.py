"""What an adapter answers, whatever its surface. Pure types, so that nothing of vLLM leaks out of the adapters."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.model.record import Candidate, Ended, Evidence, Finding


@dataclass(frozen=True)
class Decision:
    """One answer of the subject. The fields mean what those of ``Observation`` mean."""

    ended: Ended
    chosen: str | None = None
    symbol: str = ""
    detail: str = ""
    candidates: tuple[Candidate, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()


class Missing(Exception):
    """The release lacks something that the request needs: the capability, in words for ``unsupported``."""


def find(module: str, name: str) -> Any:
    """Attribute ``name`` of one of the subject's modules; None where this release has no such module or attribute.

    Raises:
        ImportError: the module is there and cannot be imported, which is a fault and no missing capability.
    """
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            return None
        raise


def unsupported(capability: str) -> Decision:
    """The release lacks ``capability``, said in words a person can act on."""
    return Decision(Ended.UNSUPPORTED, detail=f"this vLLM has no {capability}")


def answered(ask: Callable[[], Decision]) -> Decision:
    """What ``ask`` decides, with what the release lacks and what the subject raises put as decisions.

    Raises:
        ImportError: the surface's own module cannot be imported; the probe tells whose fault that is.
    """
    try:
        return ask()
    except Missing as missing:
        return unsupported(str(missing))
    except ImportError:
        raise
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)


def raised(error: BaseException, candidates: tuple[Candidate, ...] = ()) -> Decision:
    """Something other than a refusal came out of vLLM: ``TypeError: text, at vllm/…/file.py:12 in function``.

    Named is the innermost frame of the subject, without this machine's path.
    """
    where = symbol = ""
    if isinstance(error, SyntaxError) and error.filename:
        symbol = f"{_below_vllm(error.filename)}:{error.lineno}"
        return Decision(Ended.RAISED, symbol=symbol, detail=f"SyntaxError: {error.msg}, at {symbol}")
    traceback = error.__traceback__
    while traceback is not None:
        name = _below_vllm(traceback.tb_frame.f_code.co_filename)
        if name.startswith("vllm/"):
            symbol = traceback.tb_frame.f_code.co_qualname
            where = f", at {name}:{traceback.tb_lineno} in {symbol}"
        traceback = traceback.tb_next
    return Decision(
        Ended.RAISED, symbol=symbol, detail=f"{type(error).__name__}: {error}{where}", candidates=candidates
    )


def _below_vllm(path: str) -> str:
    """``vllm/…/file.py`` of a file of the subject; another path as it is."""
    return path[path.rindex("/vllm/") + 1 :] if "/vllm/" in path else path
