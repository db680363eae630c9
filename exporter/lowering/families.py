"""The families of operators. Importing this registers them all."""

from exporter.lowering import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    convolution,
    embedding,
    indexing,
    linear_algebra,
    normalization,
    padding,
    pooling,
    random,
    recurrent,
    reduction,
    shape,
)
