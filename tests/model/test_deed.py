from __future__ import annotations

import pytest

from harness.model.deed import Deed


@pytest.mark.parametrize(
    ("by", "symbol"),
    [
        ("vllm/platforms/rocm.py:152 in _sync_hip_cuda_env_vars", "_sync_hip_cuda_env_vars"),
        ("vllm/env_override.py:19 in <module>", "vllm/env_override.py"),
    ],
)
def test_the_symbol_is_the_function_or_the_file_of_a_module_s_own_code(by: str, symbol: str) -> None:
    assert Deed("x", by).symbol == symbol
