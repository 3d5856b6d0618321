"""Guards: functions for every platform that must not import a module private to another one, run for real.

In: a cell of surface ``guard``. Out: ``completed`` (it ran to its end on the CPU, numbers checked) or ``launched``
(it reached its Triton kernel, which only a device can run). The import blocker of the simulation is the witness.
"""

from __future__ import annotations

from typing import Any

from harness.adapters.decision import Decision, raised, unsupported
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence, Finding

_SYMBOL = "w8a8_triton_block_scaled_mm"
_TOLERANCE = 1e-5
"""Largest error against float64, relative to the largest entry: float32 sums of 384 products stay below it."""


class _Launched(Exception):
    """The function reached the launch of its kernel."""


class _Launcher:
    """Stands where a Triton kernel stands: ``kernel[grid](...)`` ends the call."""

    def __getitem__(self, _grid: object) -> Any:
        return self._launch

    @staticmethod
    def _launch(*_args: object, **_kwargs: object) -> None:
        raise _Launched


def decide_guard(cell: Cell) -> Decision:
    """Run the guarded function on small CPU tensors.

    ``A`` is [M, K] FP8 and ``B`` [N, K] FP8; ``As`` [M, K/128] and ``Bs`` [N/128, K/128] float32, blocks 128x128.
    """
    import torch
    import vllm.model_executor.layers.quantization.utils.fp8_utils as fp8_utils
    from vllm.platforms import current_platform

    function = getattr(fp8_utils, cell.kernel.name, None)
    if function is None:
        return unsupported(f"function fp8_utils.{cell.kernel.name}")
    generator = torch.Generator().manual_seed(0)
    m, n, k, block = 16, 256, 384, 128
    dtype = current_platform.fp8_dtype()
    a, b = ((torch.randn(rows, k, generator=generator) * 0.5).to(dtype) for rows in (m, n))
    a_scale = torch.rand(m, k // block, generator=generator) + 0.5
    b_scale = torch.rand(n // block, k // block, generator=generator) + 0.5
    kernel_name = f"_{cell.kernel.name}"
    kernel = getattr(fp8_utils, kernel_name, None)
    setattr(fp8_utils, kernel_name, _Launcher())
    try:
        out = function(a, b, a_scale, b_scale, [block, block], torch.float32)
    except _Launched:
        return Decision(Ended.ANSWERED, "launched", _SYMBOL)
    except AttributeError as error:
        if getattr(error.obj, "__name__", "") == "triton":  # vllm<0.24, where no driver of Triton is active
            return unsupported(f"{error.name} in its placeholder for Triton, which {cell.kernel.name} calls")
        return raised(error)
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    finally:
        setattr(fp8_utils, kernel_name, kernel)
    return _checked(out, a, b, a_scale, b_scale, block)


def _checked(out: Any, a: Any, b: Any, a_scale: Any, b_scale: Any, block: int) -> Decision:
    """Compare with float64 on the dequantised operands."""
    left = a.double() * a_scale.double().repeat_interleave(block, 1)
    right = b.double() * b_scale.double().repeat_interleave(block, 0).repeat_interleave(block, 1)
    reference = left @ right.T
    error = float((out.double() - reference).abs().max() / reference.abs().max())
    evidence = (
        Evidence(question="largest error against float64, relative to the largest entry", answer=f"{error:.1e}"),
    )
    findings: tuple[Finding, ...] = ()
    if not error <= _TOLERANCE:
        message = f"the float32 path is off by {error:.1e} of the largest entry (expected at most {_TOLERANCE:.0e})"
        findings = (Finding(rule="numerics", symbol=_SYMBOL, message=message),)
    return Decision(Ended.ANSWERED, "completed", _SYMBOL, evidence=evidence, findings=findings)
