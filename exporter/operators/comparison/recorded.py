"""What is recorded for comparisons and choices: writes in place, conditions of bytes, and `isin`."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.registry.in_place import DYNAMIC, FLOATS_AND_DYNAMIC, copy_back
from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, instead_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_aten = torch.ops.aten

copy_back("clamp_", "clamp_max_", "clamp_min_", to=FLOATS_AND_DYNAMIC)
copy_back("eq_", "ge_", "gt_", "heaviside_", "le_", "lt_", "ne_", to=DYNAMIC)


@instead_of("aten::where.self", why="torch takes a condition of bytes too, and its fake kernel does not")
def where(condition: torch.Tensor, x: torch.Tensor, other: torch.Tensor) -> Any:
    return _aten.where.self(condition != 0, x, other) if condition.dtype is torch.uint8 else NotImplemented


@instead_of("aten::isin.Tensor_Tensor", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
def isin(
    elements: torch.Tensor, test_elements: torch.Tensor, *, assume_unique: bool = False, invert: bool = False
) -> torch.Tensor:
    found = (elements.unsqueeze(-1) == test_elements.flatten()).any(-1)
    return ~found if invert else found


@instead_of(
    "aten::__lshift__.Tensor", "aten::__rshift__.Tensor",
    where=any_size_is_dynamic, gives_operator=True, why="torch's fake kernel reads sizes as plain ints",
)  # fmt: skip
def shift(op: OpOverload, x: torch.Tensor, other: torch.Tensor) -> Any:
    shifted = _aten.bitwise_left_shift if "lshift" in op.name() else _aten.bitwise_right_shift
    return shifted.Tensor(x, other)
