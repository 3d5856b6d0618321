"""What vLLM registers with torch when it is imported, noted while a block runs and taken back at its end.

In: whose registrations count, by file. Out: a torch in which vLLM can be imported again, for another target. torch
cannot take everything back; what stays is only what a later import of the same vLLM would register equally:

- the name of an opaque type (``torch._C._register_opaque_type`` has no opposite);
- an operator of two overloads that differ in aliasing only (``vllm_ir::rms_norm``): torch 2.13 keeps a dangling entry
  of the second one, and the next look-up is a use after free (``torch::jit::deregisterOperator`` finds by signature).

So the first simulation makes torch forgive, for good, that vLLM registers one of these again.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.model.errors import UnservableError, located
from harness.targets.drivers import Patch

_OWN = "vllm"
"""Namespaces and opaque types of vLLM's own Python code start with it (``vllm``, ``vllm_ir``, ``vllm.utils``)."""


class Registrations:
    """The torch libraries that code below ``trees`` makes while it is installed."""

    def __init__(self, trees: Sequence[Path]) -> None:
        self._trees = tuple(f"{tree}/" for tree in trees)
        self._libraries: list[Any] = []
        self._aside: list[dict[str, Any]] = []

    def install(self, patch: Patch) -> None:
        """Start to note; everything but the lasting forgiveness goes through ``patch``."""
        import torch.library

        forgive_repeats()
        real = torch.library.Library.__init__
        noted, ours = self._libraries, self._ours

        @functools.wraps(real)
        def __init__(self: Any, *args: Any, **options: Any) -> None:
            real(self, *args, **options)
            if ours():
                noted.append(self)

        patch.setattr(torch.library.Library, "__init__", __init__)
        self._aside = [_take_own(registry) for registry in _registries()]

    def close(self) -> None:
        """Deregister, the last first: an implementation must go before the definition it is for."""
        import torch.library

        for registry, content in zip(_registries(), self._aside, strict=True):
            _take_own(registry)
            registry.update(content)
        for library in reversed(self._libraries):
            if _confuses_torch(library):
                torch.library._keep_alive.append(library)
                continue
            library._destroy()
            # The library's finalizer shares these; it runs much later, when the names may belong to a new library.
            for registered in (library._op_defs, library._op_impls, library._registration_handles):
                registered.clear()
        self._libraries.clear()

    def _ours(self) -> bool:
        """Whether the frame that asked torch for a library is below one of the trees."""
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__", "").startswith(("torch.library", "torch._library")):
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(self._trees)


def _registries() -> list[Any]:
    """torch's tables by operator or type name: an entry in one refuses a second registration, or loses the first."""
    from torch._library import custom_ops, opaque_object, simple_registry

    names = opaque_object._OPAQUE_TYPES_BY_NAME
    return [custom_ops.OPDEF_TO_LIB, custom_ops.OPDEFS, simple_registry.singleton._data, names]


def _take_own(registry: Any) -> dict[str, Any]:
    return {name: registry.pop(name) for name in list(registry) if name.startswith(_OWN)}


def _confuses_torch(library: Any) -> bool:
    """Whether two overloads differ in aliasing only, as ``torch::jit::canonicalSchemaString`` sees them."""
    import torch

    seen = set()
    overloaded = [name for name in library._op_defs if "." in name]
    packets = {name.partition(".")[0] for name in overloaded}
    for name in {*overloaded, *(packets & library._op_defs)}:
        schema = torch._C._get_schema(*name.partition(".")[::2])
        arguments = tuple((each.name, str(each.type), each.kwarg_only) for each in schema.arguments)
        signature = (schema.name, arguments, tuple(str(each.type) for each in schema.returns))
        if signature in seen:
            return True
        seen.add(signature)
    return False


def forgive_repeats() -> None:
    """Let vLLM register again what torch could not forget. Lasts as long as the process; a second call does nothing."""
    import torch.library

    kind: Any = torch.library.Library
    if kind.define.__module__ == __name__:
        return
    kind.define = _forgiving_define(kind.define)
    kind.impl = _quiet_impl(kind.impl)
    register = torch._C._register_opaque_type

    def _register_opaque_type(name: str) -> None:
        if not (name.startswith(_OWN) and torch._C._is_opaque_type_registered(name)):
            register(name)

    torch._C._register_opaque_type = _register_opaque_type


def _forgiving_define(real: Any) -> Any:
    @functools.wraps(real, assigned=())
    def define(self: Any, schema: str, *args: Any, **options: Any) -> Any:
        name = schema.partition("(")[0]
        if self.ns.startswith(_OWN) and (known := _known(f"{self.ns}::{name}")) is not None:
            import torch

            if torch._C.parse_schema(f"{self.ns}::{schema}") == known:
                return name
            message = "the operator has another schema than in an earlier import of vLLM, which torch cannot forget"
            hint = "Run the test in a process of its own."
            raise UnservableError(located(f"{self.ns}::{name}", message, got=schema, expected=str(known), hint=hint))
        return real(self, schema, *args, **options)

    return define


def _known(qualified: str) -> Any:
    """The schema of an operator that torch knows, or None."""
    import torch

    name, _, overload = qualified.partition(".")
    try:
        return torch._C._get_schema(name, overload)
    except RuntimeError:
        return None


def _quiet_impl(real: Any) -> Any:
    @functools.wraps(real, assigned=())
    def impl(self: Any, *args: Any, **options: Any) -> Any:
        if not self.ns.startswith(_OWN):
            return real(self, *args, **options)
        with warnings.catch_warnings():  # torch warns of an implementation that covers an earlier one: it is meant to
            warnings.simplefilter("ignore")
            return real(self, *args, **options)

    return impl
