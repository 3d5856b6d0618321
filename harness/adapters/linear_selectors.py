"""Selectors of linear kernels under what a user may set: the same layer again and again, one setting moved.

In: a cell of surface ``linear_kernel`` with entry ``selector``. Out: whom vLLM walks past, whom it takes and how often
it speaks, and each setting that changes any of it, in one line. It must not weigh an answer. Surface ``linear`` asks
the same selectors for the layers of models, with nothing set.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from harness.adapters.categories import categorise
from harness.adapters.context import model_of
from harness.adapters.decision import Decision, Missing, find, raised
from harness.adapters.linear import REQUESTS, candidates_of, selector_codes, walks_of
from harness.adapters.linear_lists import backend_words
from harness.adapters.linear_requests import LINEAR, quant_keys
from harness.adapters.switches import turned
from harness.adapters.watch import Watch, accepted_arguments
from harness.model.cell import Cell, Layer
from harness.model.record import Candidate, Ended

_LAYER = Layer("qkv", 4096, 4096)
"""A layer that no shape keeps from any kernel."""

_SPEAKS: Mapping[str, str] = {"warning": "warns", "warning_once": "warns", "info": "tells", "info_once": "tells"}
_WITHIN_LOGGER = "_print_"
"""How functions of vLLM's logger begin that ``info_once`` calls the first time alone: what they say is said already."""

_CAPABILITIES = (60, 75, 80, 90, 100, 120)
_BESIDE_INVARIANT = ("auto", "cutlass", "triton", "emulation")
"""Words of ``--linear-backend`` that vLLM sets apart under VLLM_BATCH_INVARIANT."""

_ACTIVATIONS = ("kMxfp4Dynamic", "kInt8Dynamic32Sym", "kMxfp8Dynamic", "kMxfp6E3M2Dynamic")
"""Activations that a user may ask for instead of the checkpoint's."""

_QUANTIZATIONS = (
    "fp8_block_w8a8", "fp8_w8a8", "int8_w8a8", "mixed_precision", "mxfp8", "mxfp4", "mxfp6", "w8a16_fp8",
    "nvfp4_w4a16", "nvfp4_w4a4",
)  # fmt: skip
"""Keys of ``linear_backend_per_quant``, by vLLM's own callers."""

_GIVEN: Mapping[str, str] = {"bmm": "bmm_batch_size", "a16": "use_a16"}
"""Key of the scheme -> the argument that a selector must take for it."""


@dataclass(frozen=True)
class _Setting:
    """One thing that a user or a caller sets."""

    words: str
    context: Callable[[], AbstractContextManager[None]] = nullcontext
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Told:
    """What a selector does: in one text, with the candidates of its walk."""

    text: str
    candidates: tuple[Candidate, ...] = ()
    refusal: str = ""
    error: Exception | None = None


def decide_selector(cell: Cell) -> Decision:
    """Ask one selector plainly, and then under one setting after the other.

    Raises:
        Missing: the release has no such selector, or it does not take what the scheme asks.
    """
    scheme = cell.kernel.scheme
    function, arguments = REQUESTS[str(scheme["select"])](replace(cell, layer=_LAYER))
    for key, argument in _GIVEN.items():
        if scheme.get(key) and argument not in arguments:
            raise Missing(f"argument {argument} of {function.__name__}")
    plain = _ask(function, arguments)
    if plain.error is not None:
        return raised(plain.error, plain.candidates)
    changed: dict[str, _Told] = {}
    for setting in _settings(function, arguments, [candidate.name for candidate in plain.candidates]):
        with setting.context():
            told = _ask(function, {**arguments, **setting.arguments})
        if told.text != plain.text:
            changed[setting.words] = told
    return Decision(
        Ended.ANSWERED,
        _line(plain, changed, _passed(function)),
        function.__name__,
        candidates=(*plain.candidates, *(_candidate(words, told) for words, told in changed.items())),
    )


# ---- asking


def _ask(function: Callable[..., Any], arguments: Mapping[str, Any]) -> _Told:
    linear = importlib.import_module(LINEAR)
    with Watch(selector_codes(linear), frozenset(_SPEAKS)) as watch:
        try:
            kernel = function(**arguments)
        except ValueError as error:
            candidates = candidates_of(walks_of(watch), None)
            return _Told(f"refuses{_walk(candidates)}{_spoken(watch)}", candidates, str(error).strip().split("\n")[0])
        except Exception as error:  # the subject's own fault, whatever its type, is the observation
            return _Told(f"raises {type(error).__name__}", candidates_of(walks_of(watch), None), error=error)
    chosen = kernel if isinstance(kernel, type) else type(kernel)
    candidates = candidates_of(walks_of(watch), chosen.__name__)
    names = ",".join(getattr(kernel, "layer_param_names", ()))
    text = chosen.__name__ + (f"({names})" if names else "")
    return _Told(f"{text}{_walk(candidates)}{_spoken(watch)}", candidates)


def _walk(candidates: tuple[Candidate, ...]) -> str:
    refused = [candidate.name for candidate in candidates if candidate.accepted is False]
    return f" after {' > '.join(refused)}" if refused else ""


def _spoken(watch: Watch) -> str:
    """How often vLLM says something on the way; the words themselves may change as they like."""
    spoken = [seen for seen in watch.returns if seen.name in _SPEAKS and not seen.caller.startswith(_WITHIN_LOGGER)]
    said = [_SPEAKS[seen.name] for seen in spoken]
    return "".join(f", {word} {said.count(word)}" for word in dict.fromkeys(said))


def _passed(function: Callable[..., Any]) -> str:
    """The capability that the selector of scaled kernels passes to a kernel, asked with a kernel of ours."""
    choose = find(LINEAR, "choose_scaled_mm_linear_kernel")
    if choose is None or "scaled" not in inspect.getsource(function):
        return ""
    from vllm.platforms import current_platform

    told = []
    for number in (None, 60):
        registry = {current_platform._enum: [_Probe]}
        try:
            choose(None, registry, number, **accepted_arguments(choose, {"quantization": "gfxloop"}))
        except ValueError as error:
            told.append(f"{number} as{str(error).rpartition(_Probe.__name__)[2].rstrip('.')}")
    return f"; passes capability {', '.join(told)}"


class _Probe:
    """A kernel that refuses, and says what it was asked with."""

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str]:
        """Refuse every device."""
        return False, str(compute_capability)


# ---- settings


def _settings(function: Callable[..., Any], arguments: Mapping[str, Any], offered: list[str]) -> Iterator[_Setting]:
    yield from (_Setting(f"as {word}", lambda word=word: _user(word)) for word in backend_words())  # type: ignore[misc]
    if _has_overrides():
        for word in backend_words():
            yield _Setting(f"per quant {word}", lambda word=word: _user("auto", word))  # type: ignore[misc]
    for word in _BESIDE_INVARIANT:
        yield _Setting(f"batch-invariant as {word}", lambda word=word: _invariant(word))  # type: ignore[misc]
    for name in offered:
        yield _Setting(f"without {name}", lambda name=name: turned({"VLLM_DISABLED_KERNELS": name}))  # type: ignore[misc]
    yield from _of_arguments(function, arguments, offered)
    if "activation_quant_key" in arguments:
        yield from (_Setting(f"user's {name}", context) for name, context in _activations())


def _of_arguments(function: Callable[..., Any], arguments: Mapping[str, Any], offered: list[str]) -> Iterator[_Setting]:
    """What a caller of the selector sets."""
    taken = inspect.signature(function).parameters
    if "compute_capability" in taken:
        for number in _CAPABILITIES:
            yield _Setting(f"capability {number}", arguments={"compute_capability": number})
    if "force_kernel" in taken:
        linear = importlib.import_module(LINEAR)
        for name in offered:
            yield _Setting(f"forced {name}", arguments={"force_kernel": getattr(linear, name)})
    if "module_name" in arguments:
        yield _Setting("unnamed", arguments={"module_name": None})


@contextlib.contextmanager
def _user(word: str, per_quant: str | None = None) -> Iterator[None]:
    """The user's ``--linear-backend``, and the same for each quantization alone."""
    from vllm.config import get_current_vllm_config

    config = get_current_vllm_config().kernel_config
    values: dict[str, Any] = {"linear_backend": word}
    if per_quant is not None:
        values["linear_backend_per_quant"] = dict.fromkeys(_QUANTIZATIONS, per_quant)
    with _replaced(config, values):
        yield


@contextlib.contextmanager
def _invariant(word: str) -> Iterator[None]:
    with turned({"VLLM_BATCH_INVARIANT": "1"}), _user(word) if backend_words() else nullcontext():
        yield


@contextlib.contextmanager
def _replaced(owner: Any, values: Mapping[str, Any]) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def _has_overrides() -> bool:
    """vllm<0.30: a word for one quantization alone is not known."""
    from vllm.config import get_current_vllm_config

    return hasattr(get_current_vllm_config().kernel_config, "linear_backend_per_quant")


def _activations() -> Iterator[tuple[str, Callable[[], AbstractContextManager[None]]]]:
    """What ``--quantization-config.linear.activation`` says. vllm<0.32: it is not asked."""
    arguments, spec = (find("vllm.config.quantization", name) for name in ("QuantizationConfigArgs", "QuantSpec"))
    if find(LINEAR, "_user_linear_activation_override") is None or arguments is None or spec is None:
        return
    from vllm.config import get_current_vllm_config

    config = get_current_vllm_config()
    for name in _ACTIVATIONS:
        model = model_of(quantization_config=arguments(linear=spec(activation=quant_keys()[name])))
        yield name, lambda model=model: _replaced(config, {"model_config": model})  # type: ignore[misc]


# ---- the line


def _line(plain: _Told, changed: Mapping[str, _Told], passed: str) -> str:
    groups: dict[str, list[str]] = {}
    for words, told in changed.items():
        groups.setdefault(told.text, []).append(words)
    return plain.text + passed + "".join(f"; {', '.join(words)}: {text}" for text, words in groups.items())


def _candidate(words: str, told: _Told) -> Candidate:
    refused = bool(told.refusal or told.error)
    reason = told.refusal or (told.text if refused else "")
    return Candidate(
        name=f"{words}: {told.text}",
        accepted=not refused,
        reason=reason,
        category=categorise(reason) if refused else None,
    )
