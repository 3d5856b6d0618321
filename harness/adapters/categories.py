"""The harness's own category of a rejection, from vLLM's words. The words stay; the category is for grouping only."""

from __future__ import annotations

import re

from harness.model.record import Category

_RULES: tuple[tuple[Category, str], ...] = (
    (Category.TUNED_TABLE, r"\btuned\b|tuned list"),
    (Category.ENVIRONMENT, r"VLLM_[A-Z0-9_]+|environment variable|requires setting|enabled by|batch.?invarian"),
    (
        Category.PACKAGE,
        r"not installed|not available|package|requires `?\w+`? to be installed|not built|compiled|\w required$",
    ),
    (
        Category.ARCHITECTURE,
        r"capability|CDNA|RDNA|gfx|\bSM\d|sm_?\d|MI3|Hopper|Blackwell|Ampere|AMX|AVX|FP8 scaled-MM support|native",
    ),
    (
        Category.PLATFORM,
        r"only supported on|\b(?:ROCm|CUDA|XPU|CPU)\b|platform",
    ),
    (Category.SHAPE, r"divisible|multiple of|\bshape|group.?size|dimension|partition|\bN\b.*\bK\b|K=|N="),
    (
        Category.SCHEME,
        r"quant|scale|symmetric|zero.?point|per.?tensor|channel|dtype|act_type|activation|weight|bfloat16|float16",
    ),
    (Category.OPERATOR, r"operator|\bop\b|torch\.ops"),
)


def categorise(reason: str) -> Category:
    """The first category whose words stand in ``reason``; ``other`` where none do. A kernel's name tells nothing."""
    said = re.sub(r"\w+Kernel\b", "", reason)
    return next((category for category, words in _RULES if re.search(words, said, re.IGNORECASE)), Category.OTHER)
