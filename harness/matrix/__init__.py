"""matrix.yaml: read, checked, expanded to cells, selected from.

``load.load_matrix`` reads a file, ``select`` picks cells, ``shapes.layers_of`` gives a model's layers at any
tensor-parallel size. Device facts come in as an argument: this package never looks a device up.
"""
