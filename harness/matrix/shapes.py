"""Layer shapes as matrix.yaml writes them. In: ``"64/tp*128 + max(4/tp, 1)*256 x 4096"``. Out: N and K of one rank.

Must not: read files or know of vLLM. ``COUNT/tp`` is what tensor parallelism splits, and ``max(COUNT/tp, LEAST)`` what
it splits until LEAST are left and then copies, as vLLM's ``QKVParallelLinear`` does with key and value heads.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from harness.model.cell import Layer
from harness.model.errors import UsageError, located

MAX_SIZE = 2**31 - 1
MAX_TP = 1024

_FACTOR = re.compile(r"\s*(?:max\(\s*(\d{1,9})/tp\s*,\s*(\d{1,9})\s*\)|(\d{1,9})(/tp)?)\s*")


@dataclass(frozen=True)
class Factor:
    """A count, split over the ranks or not."""

    count: int
    split: bool
    least: int = 0
    """What one rank has at least; 0 where the count is never copied."""

    def at(self, tp: int) -> int:
        """The count of one rank.

        Raises:
            ValueError: ``tp`` does not divide the count.
        """
        if not self.split:
            return self.count
        if self.least and tp * self.least > self.count:
            if tp * self.least % self.count:
                raise ValueError(f"{self.count} cannot be copied evenly to {tp} ranks with {self.least} each")
            return self.least
        if self.count % tp:
            raise ValueError(f"{self.count} is not divisible by a tensor-parallel size of {tp}")
        return self.count // tp


@dataclass(frozen=True)
class Shape:
    """Weight [N, K] as sums of products, in elements."""

    n: tuple[tuple[Factor, ...], ...]
    k: tuple[tuple[Factor, ...], ...]

    def at(self, tp: int) -> tuple[int, int]:
        """N and K of one rank, in elements.

        Raises:
            ValueError: ``tp`` is out of range or does not divide what it splits.
        """
        if not 1 <= tp <= MAX_TP:
            raise ValueError(f"a tensor-parallel size of {tp} is not between 1 and {MAX_TP}")
        n, k = (sum(math.prod(factor.at(tp) for factor in term) for term in side) for side in (self.n, self.k))
        if not (1 <= n <= MAX_SIZE and 1 <= k <= MAX_SIZE):
            raise ValueError(f"[{n}, {k}] is not a weight's shape")
        return n, k


@dataclass(frozen=True)
class LayerShape:
    """One layer of a model before tensor parallelism."""

    name: str
    shape: Shape
    source: str
    """Where the numbers come from; the model's own source where the layer gives none."""


@dataclass(frozen=True)
class Model:
    """A model as the matrix describes it."""

    name: str
    source: str
    tps: tuple[int, ...]
    """Tensor-parallel sizes the matrix asks about."""
    kernels: tuple[str, ...]
    """Names of the kernels of surface ``linear`` it is routed with."""
    layers: tuple[LayerShape, ...]


def parse_shape(text: str) -> Shape:
    """Read ``N x K``.

    Raises:
        ValueError: the text is not a shape.
    """
    sides = text.split(" x ")
    if len(sides) != 2 or len(text) > 200:
        raise ValueError("not of the form 'N x K'")
    n, k = (tuple(tuple(_factor(word) for word in term.split("*")) for term in side.split("+")) for side in sides)
    return Shape(n, k)


def _factor(text: str) -> Factor:
    match = _FACTOR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text.strip()!r} is not COUNT, COUNT/tp or max(COUNT/tp, LEAST)")
    copied, least, count, split = match.groups()
    factor = Factor(int(copied), True, int(least)) if copied else Factor(int(count), split is not None)
    if factor.count == 0 or (copied and not 1 <= factor.least <= factor.count):
        raise ValueError(f"{text.strip()!r} has a count out of range")
    return factor


def layers_of(model: Model, tp: int) -> tuple[Layer, ...]:
    """The layers of one rank, at any tensor-parallel size.

    Raises:
        UsageError: ``tp`` does not divide a layer of the model.
    """
    layers = []
    for layer in model.layers:
        try:
            layers.append(Layer(layer.name, *layer.shape.at(tp)))
        except ValueError as error:
            hint = f"The matrix uses {', '.join(map(str, model.tps))}."
            raise UsageError(located(f"{model.name}, layer {layer.name}", str(error), got=tp, hint=hint)) from error
    return tuple(layers)
