"""From entries to cells. In: the typed file and the device facts. Out: what the file names, and every cell in order.

Must not: read files, or look devices up. Problems are gathered, each with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.matrix.schema import CellsEntry, MatrixFile, ModelEntry, Selection
from harness.matrix.schemes import faults
from harness.matrix.shapes import LayerShape, Model, layers_of, parse_shape
from harness.matrix.source import Loc, Problems, Source
from harness.matrix.words import Selector, Table, Vocabulary, kernel_words, plain_words, resolve, target_words
from harness.model.cell import Cell, Kernel, Layer, Surface
from harness.model.errors import UsageError, nearest
from harness.model.target import Platform, Target

MAX_CELLS = 50_000
LAYERED = frozenset({Surface.LINEAR, Surface.TUNED_GATE})
"""Surfaces whose question is about one layer of a model."""
SHAPED = frozenset({Surface.UNQUANTIZED_GEMM})
"""Surfaces whose question is about a layer of a model, or about a kernel's own shape ``n`` by ``k``."""


@dataclass(frozen=True)
class Environment:
    """An environment profile: the variables it sets, and the platforms on which it makes sense."""

    name: str
    platforms: frozenset[Platform]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Named:
    """Everything that the file names, in its order."""

    targets: Mapping[str, Target]
    environments: Mapping[str, Environment]
    kernels: tuple[Kernel, ...]
    models: Mapping[str, Model]
    words: Vocabulary


class Resolver:
    """Looks names up, and notes a problem for each that is not known."""

    def __init__(self, source: Source, problems: Problems) -> None:
        self._source = source
        self._problems = problems

    def problem(
        self, loc: Loc, what: str, *, got: object = None, expected: str | None = None, hint: str = "", key: bool = False
    ) -> None:
        """Note a problem at a place of the file: at the value, or with ``key`` at its key."""
        self._problems.add(self._source.mark(loc, key=key), what, got=got, expected=expected, hint=hint)

    def names(self, words: tuple[str, ...], known: Table, loc: Loc) -> frozenset[str]:
        """What the words at ``loc`` stand for."""
        found, unknown = resolve(words, known)
        for index, word in unknown:
            self.problem((*loc, index), f"unknown name in {loc[-1]!r}", got=word, hint=nearest(word, known))
        if not found and not unknown:
            self.problem(loc, f"{loc[-1]!r} stands for nothing", got=", ".join(words))
        return found

    def selector(self, entry: Selection, words: Vocabulary, loc: Loc) -> Selector:
        """The condition that an entry states."""
        sets: dict[str, frozenset[str] | None] = {}
        for key, known in words.of(entry).items():
            given: tuple[str, ...] = getattr(entry, key)
            sets[key] = self.names(given, known, (*loc, key)) if given else None
        return Selector(entry.tier, entry.surface, **sets)

    def named(self, file: MatrixFile, targets: Mapping[str, Target]) -> Named:
        """Look up everything that the file names.

        Raises:
            MatrixError: something is not known or contradicts itself.
        """
        chosen = self.names(file.targets, target_words(targets.values()), ("targets",))
        mine = {name: target for name, target in targets.items() if name in chosen}
        environments = {name: self._environment(name, file) for name in file.environments}
        kernels = tuple(self._kernels(file))
        linear = kernel_words(kernels, Surface.LINEAR)
        models = {name: self._model(name, entry, linear) for name, entry in file.models.items()}
        self._problems.check()
        surfaces: tuple[Surface | None, ...] = (None, *Surface)
        words = Vocabulary(
            targets=target_words(mine.values()),
            environments=plain_words(environments),
            kernels={surface: kernel_words(kernels, surface) for surface in surfaces},
            models=plain_words(models),
            layers=plain_words(layer.name for model in models.values() for layer in model.layers),
        )
        return Named(mine, environments, kernels, models, words)

    def _environment(self, name: str, file: MatrixFile) -> Environment:
        entry = file.environments[name]
        found = self.names(entry.platforms, plain_words(Platform), ("environments", name, "platforms"))
        return Environment(name, frozenset(map(Platform, found)), dict(entry.variables))

    def _kernels(self, file: MatrixFile) -> Iterator[Kernel]:
        for surface, families in file.kernels.items():
            seen: set[str] = set()
            for family, entries in families.items():
                for name, scheme in entries.items():
                    loc = ("kernels", surface.value, family, name)
                    if name in seen or name in families or name == "all":
                        self.problem(loc, "the name is taken on this surface", got=name, hint="Give it another name.")
                    seen.add(name)
                    self._check_scheme(surface, scheme or {}, loc)
                    yield Kernel(name, surface, family, *self._scheme(scheme or {}, loc))

    def _check_scheme(self, surface: Surface, scheme: Mapping[str, object], loc: Loc) -> None:
        for fault in faults(surface, scheme):
            at = loc if fault.key is None else (*loc, fault.key)
            self.problem(at, fault.what, got=fault.got, expected=fault.expected, hint=fault.hint, key=fault.at_key)

    def _scheme(self, given: Mapping[str, object], loc: Loc) -> tuple[dict[str, str | int | bool], tuple[str, ...]]:
        """What a kernel asks for, apart from what it needs of the release."""
        scheme: dict[str, str | int | bool] = {}
        needs: tuple[str, ...] = ()
        for key, value in given.items():
            if isinstance(value, tuple) == (key != "needs"):
                what = "a list is only allowed under 'needs'" if key != "needs" else "'needs' is not a list"
                self.problem((*loc, key), what, got=key)
            elif isinstance(value, tuple):
                needs = value
                for position, need in enumerate(needs):
                    if str(need).count(":") != 1:
                        place = (*loc, key, position)
                        self.problem(place, "not a symbol of the release", got=need, expected="module:name")
            elif isinstance(value, (str, int)):
                scheme[key] = value
        return scheme, needs

    def _model(self, name: str, entry: ModelEntry, linear: Table) -> Model:
        loc: Loc = ("models", name)
        kernels = self.names(entry.kernels, linear, (*loc, "kernels"))
        layers = []
        for layer, shape in entry.layers.items():
            try:
                layers.append(LayerShape(layer, parse_shape(shape.shape), shape.source or entry.source))
            except ValueError as error:
                expected = "'N x K' with sizes like 64/tp*128 + 256"
                self.problem((*loc, "layers", layer), str(error), got=shape.shape, expected=expected)
        model = Model(name, entry.source, entry.tp, tuple(sorted(kernels)), tuple(layers))
        for index, tp in enumerate(model.tps):
            try:
                layers_of(model, tp)
            except UsageError as error:
                self.problem((*loc, "tp", index), str(error).rstrip("."))
        return model


@dataclass(frozen=True)
class Block:
    """One entry of ``cells`` with its words looked up: the factors of the product."""

    entry: CellsEntry
    pairs: tuple[tuple[Target, Environment], ...]
    parts: tuple[tuple[Model | None, int | None, tuple[Kernel, ...], tuple[Layer | None, ...]], ...]
    """(model, tensor-parallel size, kernels, layers)"""

    @property
    def size(self) -> int:
        """How many cells the product has."""
        return len(self.pairs) * sum(len(kernels) * len(layers) for _, _, kernels, layers in self.parts)

    def cells(self) -> Iterator[Cell]:
        """The product, target by target."""
        for target, environment in self.pairs:
            for model, tp, kernels, layers in self.parts:
                for kernel in kernels:
                    for layer in layers:
                        name = model.name if model else None
                        yield Cell(
                            self.entry.tier, target, environment.name, environment.variables, kernel, name, tp, layer
                        )


def block(resolver: Resolver, entry: CellsEntry, named: Named, index: int) -> Block:
    """Look up the words of one entry; an empty product or models on the wrong surface is a problem."""
    loc: Loc = ("cells", index)
    words = named.words
    targets = resolver.names(entry.targets, words.targets, (*loc, "targets"))
    environments = resolver.names(entry.environments, words.environments, (*loc, "environments"))
    kernels = resolver.names(entry.kernels, words.kernels[entry.surface], (*loc, "kernels"))
    models = resolver.names(entry.models, words.models, (*loc, "models")) if entry.models else frozenset()
    asked = tuple(kernel for kernel in named.kernels if kernel.surface is entry.surface and kernel.name in kernels)
    if any(_is_layered(kernel) != bool(entry.models) for kernel in asked):
        need = "no models" if entry.models else "models, for its layers"
        resolver.problem(loc, f"cells of surface {entry.surface.value!r} need {need}", got=entry.name)
    pairs = tuple(
        (target, environment)
        for name, target in named.targets.items()
        for environment in named.environments.values()
        if name in targets and environment.name in environments and target.platform in environment.platforms
    )
    parts = tuple(_parts(entry, asked, [model for name, model in named.models.items() if name in models]))
    made = Block(entry, pairs, parts)
    if made.size == 0 and targets and environments and kernels:
        empty = (
            "no environment makes sense on any target" if not pairs else "no model is routed with any of the kernels"
        )
        resolver.problem(loc, f"the product is empty: {empty}", got=entry.name)
    return made


def _is_layered(kernel: Kernel) -> bool:
    """Whether the kernel asks about a layer of a model."""
    return kernel.surface in LAYERED or (kernel.surface in SHAPED and not {"n", "k"} <= set(kernel.scheme))


def _parts(
    entry: CellsEntry, asked: tuple[Kernel, ...], models: list[Model]
) -> Iterator[tuple[Model | None, int | None, tuple[Kernel, ...], tuple[Layer | None, ...]]]:
    if not entry.models:
        yield None, None, asked, (None,)
    for model in models:
        linear = entry.surface is Surface.LINEAR
        kernels = tuple(kernel for kernel in asked if not linear or kernel.name in model.kernels)
        for tp in model.tps:
            yield model, tp, kernels, layers_of(model, tp)


def expand(resolver: Resolver, file: MatrixFile, named: Named, problems: Problems) -> tuple[Cell, ...]:
    """Every cell of the file, less the excluded ones, in the order of the file.

    Raises:
        MatrixError: a product is empty or too large, an exclusion excludes nothing, or two entries give one cell.
    """
    blocks = [block(resolver, entry, named, index) for index, entry in enumerate(file.cells)]
    exclusions = [
        resolver.selector(entry, named.words, ("exclusions", index)) for index, entry in enumerate(file.exclusions)
    ]
    total = sum(made.size for made in blocks)
    if total > MAX_CELLS:
        resolver.problem(("cells",), "too many cells", got=total, expected=f"at most {MAX_CELLS}")
    problems.check()
    used: set[int] = set()
    cells: dict[str, Cell] = {}
    for index, made in enumerate(blocks):
        before = len(cells)
        for cell in _kept(made, exclusions, used):
            if cells.setdefault(cell.id, cell) is not cell:
                resolver.problem(("cells", index), "an earlier entry gives this cell already", got=cell.id)
                break
        else:
            if len(cells) == before:
                resolver.problem(("cells", index), "the product is empty: every cell is excluded", got=made.entry.name)
    for index in sorted(set(range(len(exclusions))) - used):
        resolver.problem(("exclusions", index), "the exclusion excludes nothing", hint="Correct it or take it out.")
    problems.check()
    return tuple(cells.values())


def _kept(made: Block, exclusions: list[Selector], used: set[int]) -> Iterator[Cell]:
    """The cells of a product that no exclusion matches; ``used`` takes the exclusions that matched."""
    group: tuple[str, str] | None = None
    near: list[tuple[int, Selector]] = []
    for cell in made.cells():
        if group != (cell.target.name, cell.environment):
            group = (cell.target.name, cell.environment)
            near = [(i, s) for i, s in enumerate(exclusions) if s.in_group(cell.kernel.surface, *group)]
        hits = [index for index, selector in near if selector.matches(cell)]
        used.update(hits)
        if not hits:
            yield cell
