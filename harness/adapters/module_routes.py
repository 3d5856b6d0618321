"""A built model, module by module: what each linear layer, MoE layer and attention layer really got.

In: a model that vLLM built. Out: ``ModuleRoute``s, in the model's order, layers that got the same in one. It changes
nothing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.model.whole import ModuleKind, ModuleRoute

_KERNELS = re.compile(r"^vllm\.model_executor\.(kernels|layers\.quantization\.kernels)\.")
_LAYER = re.compile(r"(?<=\.)\d+(?=\.)")
"""The number of a layer; of several numbers in a name the first is the layer's."""


def module_routes(model: Any) -> tuple[ModuleRoute, ...]:
    """Every module of the model that got a kernel, a backend or a method."""
    found = (route_of(name, module) for name, module in model.named_modules())
    return grouped([route for route in found if route is not None])


def grouped(routes: Iterable[ModuleRoute]) -> tuple[ModuleRoute, ...]:
    """Routes that differ in nothing but the number of their layer as one, at the place of the first."""
    groups: dict[str, tuple[ModuleRoute, list[str]]] = {}
    for route in routes:
        template = route.model_copy(update={"name": _LAYER.sub("{}", route.name, count=1)})
        number = _LAYER.search(route.name)
        _, numbers = groups.setdefault(template.model_dump_json(), (template, []))
        numbers.append(number.group() if number else "")
    return tuple(
        template.model_copy(update={"name": template.name.replace("{}", _ranges(numbers)), "count": len(numbers)})
        for template, numbers in groups.values()
    )


def _ranges(numbers: list[str]) -> str:
    """``0-2,5``; every second layer is ``0,2,4,...,34``."""
    if numbers == [""]:
        return ""
    values = [int(number) for number in numbers]
    step = values[1] - values[0] if len(values) > 2 else 1
    if step > 1 and values == list(range(values[0], values[-1] + 1, step)):
        return f"{values[0]},{values[1]},...,{values[-1]}"
    spans: list[list[int]] = []
    for value in values:
        if spans and value == spans[-1][1] + 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def route_of(name: str, module: Any) -> ModuleRoute | None:
    """What one module got; None where nothing was chosen for it."""
    kind = _kind(module)
    if kind is None:
        return None
    kernel, choices = _DESCRIBE[kind](module)
    return ModuleRoute(
        name=name,
        count=1,
        kind=kind,
        module=type(module).__name__,
        method=", ".join(type(holder).__name__ for holder in _holders(module)),
        kernel=kernel,
        shape=_shape(module) if kind in (ModuleKind.LINEAR, ModuleKind.EMBEDDING) else None,
        choices=choices,
        weights={
            key: f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
            for key, value in module.named_parameters(recurse=False)
        },
    )


def _kind(module: Any) -> ModuleKind | None:
    if hasattr(module, "attn_backend") or hasattr(module, "get_attn_backend"):
        return ModuleKind.ATTENTION
    method = getattr(module, "quant_method", None)
    if method is None:
        return None
    if hasattr(method, "moe"):
        return ModuleKind.MOE
    if hasattr(module, "num_embeddings"):
        return ModuleKind.EMBEDDING
    return ModuleKind.LINEAR


def _holders(module: Any) -> list[Any]:
    """The objects that hold what was chosen: the quantization method, and the scheme that it may delegate to."""
    holders = (getattr(module, "quant_method", None), getattr(module, "scheme", None))
    return [holder for holder in holders if holder is not None]


def _shape(module: Any) -> tuple[int, int] | None:
    """[N, K] of one rank; a layer that is not split states its full sizes only."""
    rows, columns = (
        getattr(module, f"{side}_per_partition", getattr(module, side, None)) for side in ("output_size", "input_size")
    )
    if rows is None or columns is None:  # vllm<0.31: an embedding has no such sizes
        weight = getattr(module, "weight", None)
        return None if weight is None or weight.dim() != 2 else (int(weight.shape[0]), int(weight.shape[1]))
    return int(rows), int(columns)


def _values(holder: Any) -> Iterator[tuple[str, Any]]:
    yield from sorted(vars(holder).items())


def _linear(module: Any) -> tuple[str, dict[str, str]]:
    kernels: list[Any] = []
    for holder in _holders(module):
        kernels += [value for _, value in _values(holder) if _KERNELS.match(type(value).__module__)]
    if kernels:
        return ", ".join(dict.fromkeys(type(kernel).__name__ for kernel in kernels)), {}
    functions = [getattr(holder, "_gemm_impl", None) for holder in _holders(module)]
    return ", ".join(function.__name__ for function in functions if function is not None), {}


def _moe(module: Any) -> tuple[str, dict[str, str]]:
    experts, choices = "", {}
    for holder in _holders(module):
        for key, value in _values(holder):
            if isinstance(value, enum.Enum) and type(value).__name__.endswith("Backend"):
                choices["backend"] = value.name
            elif key == "experts_cls" and value is not None:
                experts = value.__name__
    return experts, choices


def _attention(module: Any) -> tuple[str, dict[str, str]]:
    choices = {}
    for word, key in (("impl", "impl"), ("prefill", "prefill_backend")):
        value = getattr(module, key, None)
        if value is not None:
            choices[word] = (value if isinstance(value, type) else type(value)).__name__
    for word, key in (("kv_cache", "kv_cache_dtype"), ("head_size", "head_size"), ("kv_heads", "num_kv_heads")):
        if hasattr(module, key):
            choices[word] = str(getattr(module, key))
    if getattr(module, "sliding_window", None):
        choices["sliding_window"] = str(module.sliding_window)
    backend = getattr(module, "attn_backend", None) or module.get_attn_backend()  # DeepSeek-V4 keeps none
    return getattr(backend, "__name__", str(backend)), choices


_DESCRIBE: Mapping[ModuleKind, Callable[[Any], tuple[str, dict[str, str]]]] = {
    ModuleKind.LINEAR: _linear,
    ModuleKind.MOE: _moe,
    ModuleKind.ATTENTION: _attention,
    ModuleKind.EMBEDDING: lambda _module: ("", {}),
}
