"""Layers of a model that are the same: it is enough to run the first two of each kind.

In: a built model. Out: the layers that equal earlier ones, and a way to have those hand on what the second gave.
Two, because the first layer of a model is called without a residual. It must not take two layers for equal that differ
in a module, a parameter's shape, or what was chosen for a module.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.adapters.module_routes import route_of

_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.\d+$")


def layer_names(model: Any) -> list[str]:
    """Names of the model's layers, in its order."""
    return [name for name, _ in model.named_modules() if _LAYER.search(name)]


def repeated(model: Any) -> Mapping[str, str]:
    """Layer that equals two earlier ones -> the second of them. To be asked before weights are processed."""
    modules = dict(model.named_modules())
    alike: dict[str, list[str]] = {}
    for name in layer_names(model):
        alike.setdefault(_signature(modules[name]), []).append(name)
    return {name: names[1] for names in alike.values() for name in names[2:]}


def _signature(layer: Any) -> str:
    parts = []
    for name, module in layer.named_modules():
        shapes = [(key, str(value.dtype), tuple(value.shape)) for key, value in module.named_parameters(recurse=False)]
        route = route_of(name, module)
        parts.append((name, type(module).__name__, shapes, route.model_dump_json() if route else ""))
    return repr(parts)


@contextlib.contextmanager
def run_once(model: Any, repeats: Mapping[str, str]) -> Iterator[None]:
    """While the block runs, a repeated layer gives what the layer that it equals gave last."""
    modules = dict(model.named_modules())
    given: dict[str, Any] = {}
    hooks = []
    for name in set(repeats.values()):

        def keep(_module: Any, _arguments: Any, output: Any, name: str = name) -> None:
            given[name] = output

        hooks.append(modules[name].register_forward_hook(keep))
    for name, earlier in repeats.items():
        modules[name].forward = lambda *_args, earlier=earlier, **_options: given[earlier]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for name in repeats:
            del modules[name].forward
