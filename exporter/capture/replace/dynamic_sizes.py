"""Replacements of composite operators whose decomposition in torch would fix a dynamic size or read a value."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any, cast

import torch

from onnx_parity.exporter.capture.graph.graph import Size, same_shape, same_size
from onnx_parity.exporter.capture.replace.registry import instead_of

__all__ = ["linspace"]

_aten = torch.ops.aten


@instead_of(
    _aten._shape_as_tensor.default, why="torch's kernel writes the sizes to memory, which a fake tensor does not have"
)
def _shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    sizes = [torch.scalar_tensor(size, dtype=torch.int64, device=x.device) for size in x.shape]
    return torch.stack(sizes) if sizes else torch.empty(0, dtype=torch.int64, device=x.device)


@instead_of(_aten._reshape_from_tensor.default, why="torch's kernel reads the memory of the tensor with the sizes")
def _reshape_from_tensor(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    return x.reshape([cast("int", size.item()) for size in shape.unbind(0)])


@instead_of(_aten._dim_arange.default, why="torch's decomposition reads the size as a plain int")
def _dim_arange(like: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.arange(like.shape[dim], device=like.device)


@instead_of(
    _aten.chunk.default, why="torch's decomposition computes the number of parts, which fixes the size of the axis"
)
def _chunk(x: torch.Tensor, chunks: int, dim: int = 0) -> Any:
    # The result has the requested number of chunks, unless the axis is too short.
    size = x.shape[dim]
    if isinstance(size, int) or chunks < 1:
        return NotImplemented
    if _is_zero(size % chunks):
        part = size // chunks
        return [_aten.slice.Tensor(x, dim, number * part, (number + 1) * part) for number in range(chunks)]
    part = (size + chunks - 1) // chunks
    as_asked = (size + part - 1) // part == chunks
    if isinstance(as_asked, torch.SymBool) and not size.node.shape_env.decided(as_asked.node.expr):
        return NotImplemented
    return x.split_with_sizes([*[part] * (chunks - 1), size - part * (chunks - 1)], dim)


def _is_zero(size: Size) -> bool:
    return bool((size if isinstance(size, int) else size.node.expr) == 0)


@instead_of(
    _aten.tensor_split.sections, why="torch's decomposition computes which parts are longer, which fixes the size"
)
def _tensor_split(x: torch.Tensor, sections: Size, dim: int = 0) -> Any:
    size = x.shape[dim]
    if isinstance(size, int) or not isinstance(sections, int):
        return NotImplemented
    whole, longer = size // sections, size % sections
    starts = [whole * part + torch.sym_min(part, longer) for part in range(sections + 1)]
    return [_aten.slice.Tensor(x, dim, start, end) for start, end in itertools.pairwise(starts)]


@instead_of(
    _aten.tensor_split.tensor_indices_or_sections, why="torch's decomposition reads the memory of the index tensor"
)
def _tensor_split_at(x: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    if places.ndim == 0:
        return _aten.tensor_split.sections(x, places.item(), dim)
    bounds = [0, *(places[number].item() for number in range(places.shape[0])), sys.maxsize]
    return [_aten.slice.Tensor(x, dim, start, end) for start, end in itertools.pairwise(bounds)]


@instead_of(_aten.one_hot.default, why="torch's decomposition reads the greatest value as a plain int")
def _one_hot(x: torch.Tensor, num_classes: int = -1) -> Any:
    if num_classes != -1:
        return NotImplemented
    classes = torch.arange(x.max().item() + 1, device=x.device)
    return (x.unsqueeze(-1) == classes).to(torch.int64)


_LAYS_OUT_ANEW = "for images with channels last in memory, torch's decomposition rearranges the means with as_strided"


@instead_of(_aten.adaptive_avg_pool2d.default, why=_LAYS_OUT_ANEW)
def _adaptive_avg_pool2d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2), True) if [*sizes] == [1, 1] else NotImplemented


@instead_of(_aten.adaptive_avg_pool3d.default, why=_LAYS_OUT_ANEW)
def _adaptive_avg_pool3d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2, -3), True) if [*sizes] == [1, 1, 1] else NotImplemented


@instead_of(_aten.take_along_dim.default, why="torch's decomposition reads the broadcast sizes as plain ints")
def _take_along_dim(x: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> Any:
    static = all(isinstance(size, int) for size in (*x.shape, *indices.shape))
    if static or (dim is not None and x.ndim != indices.ndim) or indices.dtype is not torch.int64:
        return NotImplemented
    if dim is None:
        return x.reshape(-1).gather(0, indices.reshape(-1))
    along = dim % x.ndim
    pairs = enumerate(zip(x.shape, indices.shape, strict=True))
    both = [None if axis == along else _broadcast(own, other) for axis, (own, other) in pairs]
    return _expanded(x, both).gather(along, _expanded(indices, both))


def _broadcast(one: Size, other: Size) -> Size:
    if same_size(one, 1) or same_size(other, 1):
        return other if same_size(one, 1) else one
    # The comparison of a dynamic size with another one records the assumption that they are equal.
    if same_size(one, other) or one == other:
        return one if isinstance(one, int) else other
    raise RuntimeError(f"sizes {one} and {other} do not broadcast")


def _expanded(x: torch.Tensor, sizes: Sequence[Size | None]) -> torch.Tensor:
    """`x` expanded to these sizes; an axis with None is unchanged."""
    wanted = [own if size is None else size for own, size in zip(x.shape, sizes, strict=True)]
    return x if same_shape(x.shape, wanted) else x.expand(wanted)


def linspace(start: float, end: float, steps: int, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """`torch.linspace` for a symbolic number of steps, computed like torch's from both ends towards the middle."""
    wide = torch.float64
    places = torch.arange(steps, dtype=wide)
    step = (end - start) / torch.sym_max(steps - 1, 1)
    walked = torch.where(places < (steps + 1) // 2, start + step * places, end - step * (steps - 1 - places))
    return walked.to(dtype or torch.get_default_dtype())
