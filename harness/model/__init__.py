"""Domain types, pure: no I/O, no environment, nothing of vLLM. Everything else in ``harness`` may import them."""
