from __future__ import annotations

from harness.adapters.meta_attention import Batch


def test_a_batch_has_the_new_tokens_of_all_its_sequences() -> None:
    assert Batch(sequences=1, new=64, past=0).tokens == 64
    assert Batch(sequences=64, new=1, past=512).tokens == 64
