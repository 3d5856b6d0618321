"""gfxloop: hardware-in-the-loop tests for the ROCm kernel routing of vLLM.

Importing this package needs none of torch, vllm, triton, aiter or lm-eval: the modules that do are
``harness.adapters`` and the parts of ``harness.targets`` that run in a worker, and they import inside functions.
"""

__version__ = "0.1.0"
