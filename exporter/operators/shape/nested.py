"""Nested tensors whose axes are moved, joined and taken apart; copies of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.nested.jagged import Jagged, from_padded
from onnx_parity.exporter.kinds.nested.nested import Function, RaggedSize, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("contiguous", "clone")
def _contiguous(func: Function, nt: Jagged, memory_format: Any = None) -> Jagged:
    """Leaves out what is between rows."""
    repacks = memory_format is torch.contiguous_format or func.__name__ == "contiguous"
    if nt.lengths() is None or not repacks:
        return nt.alike(nt.values().clone())
    lengths = nt.lengths_of_rows()
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    longest = nt.longest()
    return from_padded(nt.padded(0, longest), offsets, nt._ragged_idx, {"max": longest})


@Jagged.rule("transpose", "swapaxes", "swapdims")
def _transpose_jagged(func: Function, nt: Jagged, dim0: int, dim1: int) -> Jagged:
    order = list(range(nt.ndim))
    first, second = dim0 % nt.ndim, dim1 % nt.ndim
    order[first], order[second] = second, first
    return _permute(func, nt, order)


@Strided.rule("transpose")
def _transpose_strided(func: Function, nt: Strided, dim0: int, dim1: int) -> Strided:
    return nt.apply(torch.transpose, nt.axis(dim0, "transpose"), nt.axis(dim1, "transpose"))


@Jagged.rule("permute")
def _permute(func: Function, nt: Jagged, *dims: Any) -> Jagged:
    given = dims[0] if len(dims) == 1 else dims
    order = [dim % nt.ndim for dim in given]
    if len(order) != nt.ndim or order[0] != 0:
        raise refused_here("the program moves the axis of the rows of a nested tensor, which has to be the first")
    return nt.alike(nt.values().permute([dim - 1 for dim in order[1:]]), order.index(nt._ragged_idx))


@Jagged.rule("unsqueeze")
def _unsqueeze_jagged(func: Function, nt: Jagged, dim: int) -> Jagged:
    inner = nt.axis(dim, "unsqueeze", among=nt.ndim + 1)
    return nt.alike(nt.values().unsqueeze(inner), nt._ragged_idx + (inner <= nt.inner))


@Strided.rule("unsqueeze")
def _unsqueeze_strided(func: Function, nt: Strided, dim: int) -> Strided:
    if dim % (nt.ndim + 1) == 0:
        raise refused("unsqueeze before the axis of its parts")
    return nt.apply(torch.unsqueeze, dim % (nt.ndim + 1) - 1)


@Jagged.rule("squeeze")
def _squeeze(func: Function, nt: Jagged, dim: int | None = None) -> Jagged:
    if dim is None:
        raise refused("squeeze without an axis")
    inner = nt.axis(dim, "squeeze")
    values = nt.values().squeeze(inner)
    return nt.alike(values, nt._ragged_idx - (values.ndim < nt.values().ndim and inner < nt.inner))


@Jagged.rule("unflatten")
def _unflatten(func: Function, nt: Jagged, dim: int, sizes: Sequence[int]) -> Jagged:
    inner = nt.axis(dim, "unflatten")
    return nt.alike(nt.values().unflatten(inner, sizes), nt._ragged_idx + (len(sizes) - 1 if inner < nt.inner else 0))


@Jagged.rule("flatten")
def _flatten(func: Function, nt: Jagged, start_dim: int = 0, end_dim: int = -1) -> Jagged:
    start, end = nt.axis(start_dim, "flatten"), nt.axis(end_dim, "flatten")
    if start <= nt.inner <= end:
        raise refused("flatten over its ragged axis")
    return nt.alike(nt.values().flatten(start, end), nt._ragged_idx - (end - start if end < nt.inner else 0))


@Jagged.rule("view", "reshape", "_unsafe_view", "expand", "view_as", "reshape_as", "broadcast_to")
def _view(func: Function, nt: Jagged, *shape: Any) -> Jagged:
    name = func.__name__
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        return nt.pointwise(func, (nt, *shape), {})  # type: ignore[no-any-return]
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if len(shape) == 1 and isinstance(shape[0], Jagged):
        given = shape[0].shape
    ragged, rest = nt._ragged_idx, [*given]
    kept = rest[: ragged + 1]
    if len(rest) <= ragged or kept[ragged] not in (-1, nt.ragged_size) or (ragged > 1 and "view" in name):
        raise refused_here(
            f"the program gives {name} the shape {tuple(rest)} for a nested tensor of the shape {nt.shape}: its first "
            "axes, up to the ragged one, have to stay, and nt.size(1) or -1 stands for the size of the ragged one"
        )
    sizes = [-1 if isinstance(size, RaggedSize) else size for size in rest[1:]]
    if "expand" not in name and "broadcast" not in name:
        sizes[ragged - 1] = nt.values().shape[ragged - 1]
        return nt.alike(nt.values().reshape(sizes))
    return nt.alike(nt.values().expand(sizes))
