"""The results of operators that find distinct values, and of counting values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.registry.results import Contiguous, result_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_aten = torch.ops.aten


@result_of(
    "aten::unique_consecutive",
    why=(
        "torch 2.13's fake kernel only accepts a positive axis, and that of torch 2.11 gives indices and counts the "
        "dtype of the values"
    ),
    static=False,
)
def unique_consecutive(
    self: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    axis = None if dim is None else dim % max(self.ndim, 1)
    return _with_places(_aten.unique_consecutive.default)(self, return_inverse, return_counts, axis)


def _with_places(unique: OpOverload) -> Callable[..., Any]:
    def result(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        values, *others = unique(self, *args, **kwargs)
        return values, *(Contiguous(torch.int64, tuple(each.shape)) for each in others)

    return result


for _op in (_aten._unique2.default, _aten.unique_dim.default):
    result_of(
        _op.name(), why="torch 2.11's fake kernel gives indices and counts the dtype of the values", static=False
    )(_with_places(_op))
