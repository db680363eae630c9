"""The families of operators. Importing this registers them all."""

from exporter.lowering import (  # noqa: F401
    activation,
    arithmetic,
    arranging,
    attention,
    convolution,
    embedding,
    indexing,
    joining,
    linear_algebra,
    normalization,
    padding,
    pooling,
    random,
    recurrent,
    reduction,
    scatter,
    shape,
    sorting,
)
