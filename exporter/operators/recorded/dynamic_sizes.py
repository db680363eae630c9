"""Replacements of composite operators whose decomposition in torch would fix a dynamic size or read a value, and of
those that take masks of bytes, which torch's fake kernels refuse.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch._ops import OpOverload

from onnx_parity.exporter.graph.graph import Size, same_shape, same_size
from onnx_parity.exporter.registry.recorded import instead_of

__all__: list[str] = []

_aten = torch.ops.aten


@instead_of(
    "aten::_shape_as_tensor", why="torch's kernel writes the sizes to memory, which a fake tensor does not have"
)
def _shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    sizes = [torch.scalar_tensor(size, dtype=torch.int64, device=x.device) for size in x.shape]
    return torch.stack(sizes) if sizes else torch.empty(0, dtype=torch.int64, device=x.device)


@instead_of("aten::_reshape_from_tensor", why="torch's kernel reads the memory of the tensor with the sizes")
def _reshape_from_tensor(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    return x.reshape([cast("int", size.item()) for size in shape.unbind(0)])


@instead_of("aten::_dim_arange", why="torch's decomposition reads the size as a plain int")
def _dim_arange(like: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.arange(like.shape[dim], device=like.device)


@instead_of("aten::chunk", why="torch's decomposition computes the number of parts, which fixes the size of the axis")
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


@instead_of("aten::broadcast_tensors", why="torch expands to a dynamic size that meets a known one, though it may be 1")
def _broadcast_tensors(tensors: list[torch.Tensor]) -> Any:
    sizes: list[Size] = []
    for axis in range(-max((x.dim() for x in tensors), default=0), 0):
        met: list[Size] = [x.shape[axis] for x in tensors if x.dim() >= -axis]
        known = {size for size in met if isinstance(size, int)} - {1}
        dynamic = [size for size in met if not isinstance(size, int)]
        if len(known) > 1 or (len(dynamic) > 1 and not known):
            return NotImplemented
        sizes += known or dynamic or [1]
    return [x.expand(sizes) for x in tensors]


def _is_zero(size: Size) -> bool:
    return bool((size if isinstance(size, int) else size.node.expr) == 0)


@instead_of(
    "aten::tensor_split.sections", why="torch's decomposition computes which parts are longer, which fixes the size"
)
def _tensor_split(x: torch.Tensor, sections: Size, dim: int = 0) -> Any:
    size = x.shape[dim]
    if isinstance(size, int) or not isinstance(sections, int):
        return NotImplemented
    whole, longer = size // sections, size % sections
    starts = [whole * part + torch.sym_min(part, longer) for part in range(sections + 1)]
    return [_aten.slice.Tensor(x, dim, start, end) for start, end in itertools.pairwise(starts)]


@instead_of(
    "aten::tensor_split.tensor_indices_or_sections", why="torch's decomposition reads the memory of the index tensor"
)
def _tensor_split_at(x: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    if places.ndim == 0:
        return _aten.tensor_split.sections(x, places.item(), dim)
    bounds = [0, *(places[number].item() for number in range(places.shape[0])), sys.maxsize]
    return [_aten.slice.Tensor(x, dim, start, end) for start, end in itertools.pairwise(bounds)]


@instead_of(
    "aten::repeat_interleave.self_Tensor",
    why="torch's own asks whether there is one number for each element or for all",
)
def _repeat_interleave(x: torch.Tensor, repeats: torch.Tensor, dim: int | None = None, **output_size: Any) -> Any:
    sizes: list[Size] = [*x.shape, *repeats.shape]
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    if dim is None:
        x, dim = x.reshape(-1), 0
    each = repeats.reshape(-1)
    count, given = x.shape[dim], cast("Size", each.shape[0])
    if isinstance(given, int) and given != 1:
        return NotImplemented
    if not same_size(count, given):
        # One number is repeated for all elements; where there are as many as elements, they stay as they are.
        each = each.index_select(0, torch.remainder(torch.arange(count, device=x.device), cast("int", given)))
    return x.index_select(dim, _aten.repeat_interleave.Tensor(each, **output_size))


@instead_of("aten::where.self", why="torch takes a condition of bytes too, and its fake kernel does not")
def _where(condition: torch.Tensor, x: torch.Tensor, other: torch.Tensor) -> Any:
    return _aten.where.self(condition != 0, x, other) if condition.dtype is torch.uint8 else NotImplemented


def _with_bools(op: OpOverload) -> Callable[..., Any]:
    def instead(self: torch.Tensor, indices: Sequence[torch.Tensor | None], *others: Any, **options: Any) -> Any:
        if not any(index is not None and index.dtype is torch.uint8 for index in indices):
            return NotImplemented
        masks = [index.bool() if index is not None and index.dtype is torch.uint8 else index for index in indices]
        return op(self, masks, *others, **options)

    return instead


for _op in (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default):
    instead_of(_op, why="torch treats uint8 indices as masks, with a warning, but its fake kernels refuse them")(
        _with_bools(_op)
    )


@instead_of("aten::one_hot", why="torch's decomposition reads the greatest value as a plain int")
def _one_hot(x: torch.Tensor, num_classes: int = -1) -> Any:
    if num_classes != -1:
        return NotImplemented
    classes = torch.arange(x.max().item() + 1, device=x.device)
    return (x.unsqueeze(-1) == classes).to(torch.int64)


_LAYS_OUT_ANEW = "for images with channels last in memory, torch's decomposition rearranges the means with as_strided"


@instead_of("aten::adaptive_avg_pool2d", why=_LAYS_OUT_ANEW)
def _adaptive_avg_pool2d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2), True) if [*sizes] == [1, 1] else NotImplemented


@instead_of("aten::adaptive_avg_pool3d", why=_LAYS_OUT_ANEW)
def _adaptive_avg_pool3d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2, -3), True) if [*sizes] == [1, 1, 1] else NotImplemented


@instead_of("aten::take_along_dim", why="torch's decomposition reads the broadcast sizes as plain ints")
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


@instead_of("aten::affine_grid_generator", why="torch's decomposition calls linspace, which fixes a dynamic size")
def _affine_grid(theta: torch.Tensor, size: Sequence[Size], align_corners: bool) -> Any:
    if all(isinstance(each, int) for each in size) or len(size) not in (4, 5):
        return NotImplemented
    axes = size[2:]
    # In the order of the coordinates, the last axis comes first. Of an axis of one, torch makes a 0.
    columns = [_centred(length, align_corners, theta.device).to(theta.dtype) for length in axes]
    shaped = [column.view([-1, *[1] * (len(axes) - 1 - axis)]) for axis, column in enumerate(columns)]
    shaped = [*reversed(shaped), theta.new_ones([1] * len(axes))]
    homogeneous = torch.stack([column.expand(axes) for column in shaped], -1)
    return (homogeneous.view(-1, len(axes) + 1) @ theta.mT).view(theta.shape[0], *axes, len(axes))


def _centred(length: Size, reaches_ends: bool, device: torch.device) -> torch.Tensor:
    """The places of that many pixels between -1 and 1, which are the outermost pixels or their outer edges."""
    count = cast("int", length)
    span = torch.sym_max(count - 1, 1) if reaches_ends else count
    return (2 * torch.arange(count, dtype=torch.float64, device=device) - (count - 1)) / span
