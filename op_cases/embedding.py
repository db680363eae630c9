"""Embeddings: rows of a table, and reductions of several rows (bags)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, IEEE_FLOATS, WIDE_FLOATS, floats, given, ints, op

_MODES = ["sum", "mean", "max"]
_TABLE = floats(10, 4)

embedding = op(
    F.embedding,
    ints(2, 3, high=10),
    _TABLE,
    rows=[{}, {"padding_idx": 1}, {"padding_idx": -1}],
    dtypes=IEEE_FLOATS,
    dynamic={"x0": {0: "batch", 1: "time"}},
)
embedding_of_int32 = op(F.embedding, ints(2, 3, dtype=torch.int32), _TABLE)
embedding_of_scalar = op(F.embedding, ints(high=10), _TABLE)
embedding_of_nothing = op(F.embedding, ints(0, 3, high=10), _TABLE)
embedding_module = op(nn.Embedding, ints(2, 3, high=10), num_embeddings=10, embedding_dim=4, padding_idx=2)
embedding_max_norm = op(
    lambda i, w, **how: F.embedding(i, w * 2, max_norm=1.5, **how),
    ints(2, 3, high=10),
    _TABLE,
    norm_type=[1.0, 2.0, 3.0, float("inf")],
    dtypes=WIDE_FLOATS,
)
embedding_max_norm_rows = op(
    lambda i, w: (w := w * 2, F.embedding(i, w, max_norm=1.0), w)[1:], ints(3, high=10), _TABLE
)
embedding_bag = op(F.embedding_bag, ints(3, 4, high=10), _TABLE, mode=_MODES, dtypes=IEEE_FLOATS)
embedding_bag_offsets = op(F.embedding_bag, ints(7, high=10), _TABLE, given([0, 2, 2, 5]), mode=_MODES)
embedding_bag_last_offset = op(
    F.embedding_bag,
    ints(7, high=10),
    _TABLE,
    given([0, 2, 5, 7]),
    mode=_MODES,
    include_last_offset=True,
)
embedding_bag_padding = op(F.embedding_bag, given([[1, 2, 1], [1, 1, 1]]), _TABLE, mode=_MODES, padding_idx=1)
embedding_bag_padding_dynamic = op(
    F.embedding_bag, ints(3, 4, high=10), _TABLE, mode=_MODES, padding_idx=1, dynamic={"x0": {0: "batch"}}
)
embedding_bag_weights = op(F.embedding_bag, ints(3, 4, high=10), _TABLE, per_sample_weights=floats(3, 4), mode="sum")
embedding_bag_module = op(nn.EmbeddingBag, ints(3, 4, high=10), num_embeddings=10, embedding_dim=4, mode=_MODES)
embedding_bag_dynamic = op(
    F.embedding_bag, ints(3, 4, high=10), _TABLE, mode=["sum", "mean"], dynamic={"x0": {0: "batch"}}
)
embedding_bag_of_special = op(
    F.embedding_bag,
    ints(3, 4, high=3),
    floats(3, 2, special=(float("inf"), float("-inf"))),
    mode=_MODES,
)
one_hot = op(F.one_hot, ints(2, 3, high=5), num_classes=[5, 7], dynamic=BATCH)
#: NaN is the maximum of a bag, and a row with NaN is not too long.
rows_of_nan = op(
    lambda i, w: (F.embedding_bag(i, w, mode="max"), F.embedding(i, w * 2, max_norm=1.0, norm_type=math.inf)),
    ints(5, 4, high=10),
    floats(10, 4, special=(math.nan,) * 5),
    dtypes=[torch.float32],
)
