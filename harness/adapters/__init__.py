"""The only modules that import vllm, torch, triton, aiter, amdsmi or lm_eval, inside functions. One per surface.

In: the request of one cell. Out: a ``Decision``. What differs between vLLM releases is absorbed here and nowhere
else, each difference marked with the release, like ``# vllm<0.31:``.
"""
