"""Sorting, top-k, the k-th value, and unique values."""

from __future__ import annotations

import torch

from onnx_parity.harness.case import BATCH, distinct, floats, given, numbers, op

ORDERED = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
SPECIAL = (float("nan"), float("inf"), float("-inf"))

topk = op(torch.topk, distinct(5, 6), k=[0, 1, 3, 5], largest=[True, False], dtypes=ORDERED)
topk_dims = op(torch.topk, distinct(5, 6), k=2, dim=[0, 1, -2], sorted=[True, False])
topk_scalar = op(torch.topk, floats(), k=1)
topk_dynamic = op(torch.topk, distinct(3, 6), k=2, dynamic=BATCH)
topk_by_size = op(lambda x: x.topk(x.shape[0] - 1, 0), distinct(4, 3), dynamic=BATCH, sizes={"batch": [2, 6]})
topk_special = op(torch.topk, floats(3, 6, special=SPECIAL), k=[2, 6], largest=[True, False])
sort = op(
    torch.sort,
    distinct(3, 5),
    rows=[{}, {"dim": 0}, {"descending": True}, {"dim": 0, "descending": True}],
    dtypes=ORDERED,
)
sort_stable = op(torch.sort, numbers(4, 9), stable=True, descending=[True, False], dtypes=[*ORDERED, torch.bool])
sort_special = op(torch.sort, floats(3, 6, special=SPECIAL), descending=[True, False], stable=True)
sort_wide_ints = op(
    torch.sort, given([2**62 + 1, -(2**62), 5, 2**62, -5, 2**32, -(2**32) - 1]), descending=[True, False]
)
sort_dynamic = op(torch.sort, distinct(3, 5), dim=[0, 1], dynamic=BATCH)
sort_scalar = op(torch.sort, floats())
sort_nothing = op(torch.sort, floats(0, 3), dim=[0, 1])
argsort = op(torch.argsort, distinct(3, 5), dim=[0, -1], descending=[True, False])
argsort_stable = op(torch.argsort, numbers(4, 9), stable=True)
msort = op(torch.msort, distinct(3, 5))
kthvalue = op(torch.kthvalue, distinct(3, 5), k=[1, 3, 5], keepdim=[True, False])
kthvalue_dim = op(
    torch.kthvalue, distinct(3, 5), k=2, dim=[0, -1], dynamic={"x": {1: "columns"}}, sizes={"columns": [2, 9]}
)
unique = op(
    torch.unique,
    numbers(4, 5),
    rows=[{}, {"return_inverse": True}, {"return_counts": True}, {"return_inverse": True, "return_counts": True}],
    dtypes=[*ORDERED, torch.bool],
)
unique_special = op(torch.unique, given([1.0, float("inf"), float("nan"), 1.0, -0.0, 0.0]), return_inverse=True)
unique_dim = op(
    torch.unique,
    numbers(6, 2, low=0, high=2),
    dim=[0, 1],
    return_inverse=True,
    return_counts=True,
    dtypes=[torch.float32, torch.int64, torch.int32],
)
unique_dynamic = op(torch.unique, numbers(4, 5), return_counts=True, dynamic=BATCH)
unique_consecutive = op(
    torch.unique_consecutive, numbers(12, low=0, high=2), rows=[{}, {"return_inverse": True, "return_counts": True}]
)
unique_consecutive_dim = op(torch.unique_consecutive, numbers(6, 1, low=0, high=2), dim=[0, -1], return_counts=True)
