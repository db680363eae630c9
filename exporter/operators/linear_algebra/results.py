"""The results of products, sums of products, and solutions of systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size, is_broadcast, same_size
from onnx_parity.exporter.recording.fakes.metadata import are_on_one_device, describe
from onnx_parity.exporter.recording.fakes.pointwise import broadcast
from onnx_parity.exporter.registry.results import Contiguous, result_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_aten = torch.ops.aten
_WHY = "torch's fake kernels import sympy, 0.3 s of a process's first export; with dynamic sizes they take 5 to 30 ms"


@result_of("aten::matmul", why=_WHY)
def matmul(self: torch.Tensor, other: torch.Tensor) -> Any:
    left, right = describe(self).shape, describe(other).shape
    # If the left side has fewer axes, torch computes the transposed product, which is not contiguous.
    if len(left) < len(right) or len(right) < 2 or left[-1] != right[-2]:
        return NotImplemented
    batch = broadcast(self, other, axes=slice(-2))
    if batch is None or self.dtype != other.dtype or not are_on_one_device(self, other):
        return NotImplemented
    return Contiguous(self.dtype, (*batch, self.shape[-2], other.shape[-1]))


@result_of("aten::mm", why=_WHY)
def mm(self: torch.Tensor, other: torch.Tensor) -> Any:
    return matmul(self, other) if self.ndim == other.ndim == 2 else NotImplemented


@result_of("aten::bmm", why=_WHY)
def bmm(self: torch.Tensor, other: torch.Tensor) -> Any:
    is_batched = self.ndim == other.ndim == 3 and same_size(self.shape[0], other.shape[0])
    return matmul(self, other) if is_batched else NotImplemented


@result_of("aten::addmm", why=_WHY)
def addmm(self: torch.Tensor, first: torch.Tensor, second: torch.Tensor, **factors: float) -> Any:
    fits = first.ndim == second.ndim == 2 and describe(self).shape in ((), describe(second).shape[1:])
    if factors or not fits or self.dtype != first.dtype or not are_on_one_device(self, first, second):
        return NotImplemented
    return matmul(first, second)


@result_of("aten::linear", why=_WHY)
def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    sizes, rows = describe(input).shape, describe(weight).shape
    fits = len(rows) == 2 and len(sizes) > 0 and sizes[-1] == rows[1] and input.dtype == weight.dtype
    if bias is not None:
        fits = fits and describe(bias).shape == rows[:1] and bias.dtype == input.dtype
    if not fits or not are_on_one_device(input, weight, bias):
        return NotImplemented
    return Contiguous(input.dtype, (*input.shape[:-1], weight.shape[0]))


@result_of("aten::bilinear", why="torch's own fails in an assertion where sizes are symbols")
def bilinear(input1: torch.Tensor, input2: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    if input1.dtype != weight.dtype or not same_size(input1.shape[-1], weight.shape[1]):
        return NotImplemented  # torch refuses arguments that do not fit.
    return Contiguous(input1.dtype, (*input1.shape[:-1], weight.shape[0]))


def _added_to(op: OpOverload) -> Callable[..., Any]:
    def result(self: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, **factors: float) -> Contiguous:
        if not self.dtype == batch1.dtype == batch2.dtype:
            raise RuntimeError(
                f"{op} takes tensors of one dtype, but got {self.dtype}, {batch1.dtype} and {batch2.dtype}"
            )
        products: torch.Tensor = _aten.bmm.default(batch1, batch2)
        sizes: list[Size] = list(products.shape if op is _aten.baddbmm.default else products.shape[1:])
        aligned = zip(reversed(self.shape), reversed(sizes), strict=False)
        # The comparison of a dynamic size with another records an assumption, which may fix an axis.
        if self.ndim > len(sizes) or not all(is_broadcast(own) or own == size for own, size in aligned):
            raise RuntimeError(f"{op} cannot add {list(self.shape)}: it does not broadcast to {sizes}")
        return Contiguous(self.dtype, tuple(sizes))

    return result


for _op in (_aten.baddbmm.default, _aten.addbmm.default):
    result_of(
        _op.name(),
        why="torch 2.13's fake kernels expand the added tensor with a kernel that takes only plain sizes",
        static=False,
    )(_added_to(_op))


@result_of("aten::geqrf", why="torch has no fake kernel for it", static=False)
def geqrf(self: torch.Tensor) -> tuple[torch.Tensor, Contiguous]:
    *batch, rows, columns = self.shape
    return torch.empty_like(self), Contiguous(self.dtype, (*batch, torch.sym_min(rows, columns)))


@result_of(
    "aten::linalg_solve_triangular",
    "aten::cholesky_solve",
    why="torch's fake kernel expands both tensors to plain ints",
    static=False,
)
def solution(self: torch.Tensor, other: torch.Tensor, *args: Any, **options: Any) -> Contiguous:
    """Of the batch of both, and the sides, which are the second tensor of the first operator; both have as many rows.

    The first operator takes sides of another dtype, and casts them to that of the matrices.
    """
    is_triangular = "left" in options or "upper" in options
    sides, matrices = (other, self) if is_triangular else (self, other)
    batch = torch.broadcast_shapes(sides.shape[:-2], matrices.shape[:-2])
    return Contiguous(self.dtype, (*batch, *sides.shape[-2:]))


@result_of(
    "aten::linalg_pinv.atol_rtol_tensor",
    why="torch's decomposition asks which of the two sizes is larger",
    static=False,
)
def linalg_pinv(self: torch.Tensor, **options: Any) -> Contiguous:
    return Contiguous(self.dtype, (*self.shape[:-2], self.shape[-1], self.shape[-2]))
