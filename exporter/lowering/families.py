"""The families of operators. Importing this registers them all."""

from exporter.lowering import (  # noqa: F401
    activation,
    arithmetic,
    convolution,
    embedding,
    indexing,
    linear_algebra,
    normalization,
    pooling,
    random,
    recurrent,
    reduction,
    shape,
)
