"""Products of matrices and vectors, and layers made of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, FLOATS, floats, numbers, op

_DTYPES = [*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8]
_SCALES = [{}, {"beta": 0.5}, {"alpha": -2.0}, {"beta": 0, "alpha": 3.0}]
_INT_SCALES = [{}, {"beta": 2}, {"alpha": -2}, {"beta": 0, "alpha": 3}]

mm = op(torch.mm, numbers(2, 3), mat2=numbers(3, 4), dtypes=_DTYPES, dynamic={"x": {0: "rows"}})
mm_empty = op(torch.mm, floats(2, 0), mat2=floats(0, 4))
bmm = op(torch.bmm, numbers(2, 3, 4), mat2=numbers(2, 4, 5), dtypes=_DTYPES, dynamic={"x": {1: "rows"}})
mv = op(torch.mv, numbers(3, 4), vec=numbers(4), dtypes=_DTYPES)
dot = op(torch.dot, numbers(4), tensor=numbers(4), dtypes=_DTYPES)
outer = op(torch.outer, numbers(3), vec2=numbers(4), dtypes=_DTYPES)
ger = op(torch.ger, floats(3), vec2=floats(4))
matmul = op(
    torch.matmul,
    rows=[
        {"input": floats(4), "other": floats(4)},
        {"input": floats(4), "other": floats(4, 3)},
        {"input": floats(3, 4), "other": floats(4)},
        {"input": floats(3, 4), "other": floats(4, 5)},
        {"input": floats(4), "other": floats(2, 4, 3)},
        {"input": floats(2, 3, 4), "other": floats(4)},
        {"input": floats(2, 3, 4), "other": floats(4, 5)},
        {"input": floats(3, 4), "other": floats(2, 4, 5)},
        {"input": floats(2, 1, 3, 4), "other": floats(5, 4, 2)},
        {"input": floats(0, 3), "other": floats(3, 2)},
    ],
)
matmul_dtypes = op(torch.matmul, numbers(2, 3, 4), other=numbers(4, 5), dtypes=_DTYPES)
matmul_operator = op(lambda x, y: x @ y.mT, floats(2, 3, 4), y=floats(5, 4), dynamic={"x": {0: "batch", 1: "rows"}})
#: onnxruntime's optimiser makes FusedMatMul of these, which is wrong if the transposed matrix is on the left.
matmul_of_transposed = op(
    lambda x, y: (
        x.mT @ y, (x.mT * 2) @ y, torch.cat([x.mT, x.mT]) @ y, x[0].T.mv(y), y @ x[0].T.mT, x.permute(2, 0, 1) @ y,
    ),
    floats(2, 3, 4),
    y=floats(3),
    dtypes=FLOATS,
)  # fmt: skip
matmul_without_rows = op(
    lambda x, y: x @ y, floats(2, 3, 4), y=floats(4), dynamic={"x": {1: "rows"}}, sizes={"rows": [0, 5]}
)
addmm = op(
    torch.addmm,
    floats(2, 4),
    mat1=floats(2, 3),
    mat2=floats(3, 4),
    rows=_SCALES,
    dynamic={"mat1": {0: "rows"}, "x": {0: "rows"}},
)
addmm_broadcast = op(
    torch.addmm,
    rows=[{"input": floats(4)}, {"input": floats(2, 1)}, {"input": floats()}],
    mat1=floats(2, 3),
    mat2=floats(3, 4),
)
addmm_dtypes = op(torch.addmm, numbers(2, 4), mat1=numbers(2, 3), mat2=numbers(3, 4), rows=_INT_SCALES, dtypes=_DTYPES)
addmm_nan_left_out = op(
    torch.addmm, floats(2, 4, special=(float("nan"),)), mat1=floats(2, 3), mat2=floats(3, 4), beta=0
)
addmm_ = op(lambda x, a, b: (x + 0).addmm_(a, b, beta=2), floats(2, 4), a=floats(2, 3), b=floats(3, 4))
addmv = op(torch.addmv, floats(2), mat=floats(2, 3), vec=floats(3), rows=_SCALES)
addr = op(torch.addr, floats(2, 3), vec1=floats(2), vec2=floats(3), rows=_SCALES)
bmm_of_other_axes = op(
    lambda a, b: torch.bmm(a.reshape(2, 4, 4), b.reshape(2, 4, 3)).reshape(2, 2, 6) + 1,
    floats(2, 2, 8),
    b=floats(2, 2, 6),
)
addbmm = op(torch.addbmm, floats(3, 5), batch1=floats(2, 3, 4), batch2=floats(2, 4, 5), rows=_SCALES)
baddbmm = op(torch.baddbmm, floats(2, 3, 5), batch1=floats(2, 3, 4), batch2=floats(2, 4, 5), rows=_SCALES)
addbmm_broadcast = op(
    torch.addbmm,
    rows=[{"input": floats(5)}, {"input": floats(1, 5)}, {"input": floats()}],
    batch1=floats(2, 3, 4),
    batch2=floats(2, 4, 5),
    beta=[0, 0.5],
    dynamic={"batch1": {0: "batch", 1: "rows"}, "batch2": {0: "batch"}},
)
addbmm_varying = op(
    torch.addbmm,
    floats(3, 5),
    batch1=floats(2, 3, 4),
    batch2=floats(2, 4, 5),
    dynamic={"x": {0: "rows", 1: "columns"}, "batch1": {0: "batch", 1: "rows"}, "batch2": {0: "batch", 2: "columns"}},
)
baddbmm_broadcast = op(
    torch.baddbmm,
    rows=[{"input": floats(*sizes)} for sizes in ((), (5,), (3, 1), (1, 3, 5), (2, 1, 1), (1, 1, 5))],
    batch1=floats(2, 3, 4),
    batch2=floats(2, 4, 5),
    beta=[0, 0.5],
)
baddbmm_broadcast_varying = op(
    torch.baddbmm,
    rows=[{"input": floats(*sizes)} for sizes in ((), (5,), (1, 1), (1, 1, 5))],
    batch1=floats(2, 3, 4),
    batch2=floats(2, 4, 5),
    alpha=[1, -2.0],
    dynamic={"batch1": {0: "batch", 1: "rows"}, "batch2": {0: "batch"}},
    sizes={"rows": (1, 6)},
)
baddbmm_dtypes = op(
    torch.baddbmm, numbers(2, 3, 5), batch1=numbers(2, 3, 4), batch2=numbers(2, 4, 5), rows=_INT_SCALES, dtypes=_DTYPES
)
linear = op(
    F.linear,
    rows=[
        {"input": floats(4)},
        {"input": floats(2, 4)},
        {"input": floats(2, 3, 4)},
        {"input": floats(2, 1, 3, 4)},
        {"input": floats(0, 4)},
    ],
    weight=floats(5, 4),
    bias=[None, floats(5)],
)
linear_vector_weight = op(F.linear, floats(2, 3, 4), weight=floats(4), bias=[None, floats()])
linear_dtypes = op(F.linear, numbers(2, 4), weight=numbers(5, 4), bias=numbers(5), dtypes=_DTYPES)
linear_module = op(
    nn.Linear,
    floats(2, 3, 4),
    in_features=4,
    out_features=5,
    bias=[True, False],
    dynamic={"x": {0: "batch", 1: "steps"}},
)
bilinear = op(
    nn.Bilinear, floats(3, 4), floats(3, 5), in1_features=4, in2_features=5, out_features=2, bias=[True, False]
)
chain_matmul = op(lambda a, b, c: torch.linalg.multi_dot([a, b, c]), floats(2, 3), floats(3, 4), floats(4, 5))
einsum = op(
    lambda equation, **operands: torch.einsum(equation, *operands.values()),
    rows=[
        {"equation": "ij,jk->ik", "a": floats(2, 3), "b": floats(3, 4)},
        {"equation": "ii->i", "a": floats(3, 3)},
        {"equation": "ii", "a": floats(3, 3)},
        {"equation": "ij->ji", "a": floats(2, 3)},
        {"equation": "ij->", "a": floats(2, 3)},
        {"equation": "i,j->ij", "a": floats(2), "b": floats(3)},
        {"equation": "bij,bjk->bik", "a": floats(2, 3, 4), "b": floats(2, 4, 5)},
        {"equation": "...ij,...j->...i", "a": floats(2, 5, 3, 4), "b": floats(5, 4)},
        {"equation": "bhid,bhjd->bhij", "a": floats(2, 3, 4, 5), "b": floats(2, 3, 6, 5)},
        {"equation": "b i j, b j k -> b k i", "a": floats(2, 3, 4), "b": floats(2, 4, 5)},
        {"equation": "bhwc,hkc->bhwk", "a": floats(2, 3, 4, 5), "b": floats(3, 6, 5)},
        {"equation": "bhwc,wkc->bhwk", "a": floats(2, 3, 4, 5), "b": floats(4, 6, 5)},
        {"equation": "cd,bhwc->dbhw", "a": floats(5, 6), "b": floats(2, 3, 4, 5)},
        {"equation": "bij,bj->bi", "a": floats(2, 3, 4), "b": floats(2, 4)},
        {"equation": "bj,bij->bi", "a": floats(2, 4), "b": floats(2, 3, 4)},
        {"equation": "bij,bik->kbj", "a": floats(2, 3, 4), "b": floats(1, 3, 5)},
        {"equation": "bi,bi->b", "a": floats(2, 3), "b": floats(2, 3)},
        {"equation": "ij,kj", "a": floats(2, 3), "b": floats(4, 3)},
        {"equation": "ij,ji", "a": floats(2, 3), "b": floats(3, 2)},
        {"equation": "abi,cdi->abcd", "a": floats(2, 3, 4), "b": floats(2, 5, 4)},
        {"equation": "bij,bjk->bik", "a": floats(2, 3, 4), "b": floats(2, 1, 5)},
        {"equation": "bn,anm,bm->ba", "a": floats(2, 3), "b": floats(5, 3, 4), "c": floats(2, 4)},
    ],
)
det = op(
    torch.det,
    rows=[{"input": floats(*sizes)} for sizes in ((3, 3), (2, 4, 4), (2, 3, 6, 6), (1, 1), (2, 0, 0), (0, 3, 3))],
)
linalg_det = op(torch.linalg.det, floats(3, 5, 5), dynamic=BATCH)
