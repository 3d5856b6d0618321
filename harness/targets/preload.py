"""Imported once by the fork server, and only by it: the third-party modules that vLLM imports.

In: nothing. Out: ``sys.modules`` filled with modules that do not look at the target, so that a worker need not import
them. It must not import vLLM, or any module that bakes a device in: the test that compares fork server and fresh
process guards that.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import warnings

MODULES = (
    "torch",
    "torch._inductor.lowering",
    "torch._inductor.graph",
    "torch._inductor.pattern_matcher",
    "torch._inductor.custom_graph_pass",
    "torch._subclasses.fake_tensor",
    "torch.distributed",
    "torch.distributed._functional_collectives",
    "torch.distributed._symmetric_memory",
    "torch.utils.cpp_extension",
    "triton",
    "triton.language",
    "triton.language.extra.libdevice",
    "triton.experimental.gluon.language",
    "triton.backends",
    "numpy",
    "pandas",
    "regex",
    "pydantic.dataclasses",
    "transformers",
    "transformers.configuration_utils",
    "transformers.dynamic_module_utils",
    "transformers.feature_extraction_utils",
    "transformers.image_processing_utils",
    "transformers.processing_utils",
    "transformers.video_processing_utils",
    "transformers.models.auto.image_processing_auto",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.auto.video_processing_auto",
    "transformers.models.whisper.tokenization_whisper",
    "huggingface_hub.utils",
    "safetensors.torch",
    "compressed_tensors",
    "compressed_tensors.quantization",
    "aiohttp",
    "requests",
    "fastapi",
    "openai",
    "openai.types.chat",
    "openai.types.responses",
    "openai_harmony",
    "xgrammar",
    "xgrammar.structural_tag",
    "xgrammar.openai_tool_call_schema",
    "PIL.ImageOps",
    "cv2",
    "scipy.signal",
    "zmq.asyncio",
    "msgspec.msgpack",
    "cloudpickle",
    "cachetools",
    "cbor2",
    "xxhash",
    "pybase64",
    "psutil",
    "uvloop",
    "cpuinfo",
    "prometheus_client",
    "partial_json_parser",
    "einops",
    "tqdm.auto",
    "yaml",
    "opentelemetry.trace",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.trace.propagation.tracecontext",
)
"""What vLLM 0.28 to 0.33 import from outside while a linear layer is routed (seen by watching ``__import__``)."""

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _name in MODULES:
        # A module that cannot be imported is no fault here: a worker that needs it meets the same error itself.
        with contextlib.suppress(Exception):
            importlib.import_module(_name)

gc.collect()
gc.freeze()

# Triton's bindings print a page about leaked references when an interpreter that has them ends in the usual way.
atexit.register(os._exit, 0)
