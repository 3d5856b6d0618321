"""matrix.yaml: read, checked, expanded to cells, selected from.

In: a path and, as an argument, the table of device facts: this package never looks a device up. Out: ``Matrix``.
"""

from harness.matrix.expectations import Excepted, Expected, KnownFailure
from harness.matrix.load import Matrix, load_matrix
from harness.matrix.select import drop_contradicting, select
from harness.matrix.shapes import layers_of

__all__ = ["Excepted", "Expected", "KnownFailure", "Matrix", "drop_contradicting", "layers_of", "load_matrix", "select"]
