"""What an adapter answers, whatever its surface. Pure types, so that nothing of vLLM leaks out of the adapters."""

from __future__ import annotations

from dataclasses import dataclass

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


def unsupported(capability: str) -> Decision:
    """The release lacks ``capability``, said in words a person can act on."""
    return Decision(Ended.UNSUPPORTED, detail=f"this vLLM has no {capability}")


def raised(error: BaseException, candidates: tuple[Candidate, ...] = ()) -> Decision:
    """Something other than a refusal came out of vLLM: ``TypeError: text, at vllm/…/file.py:12 in function``.

    Named is the innermost frame of the subject, without this machine's path.
    """
    where = symbol = ""
    traceback = error.__traceback__
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename.replace("\\", "/")
        if "/vllm/" in path:
            name = path[path.rindex("/vllm/") + 1 :]
            symbol = traceback.tb_frame.f_code.co_qualname
            where = f", at {name}:{traceback.tb_lineno} in {symbol}"
        traceback = traceback.tb_next
    return Decision(
        Ended.RAISED, symbol=symbol, detail=f"{type(error).__name__}: {error}{where}", candidates=candidates
    )
