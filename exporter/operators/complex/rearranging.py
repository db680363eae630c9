"""Complex tensors whose elements are moved, selected, repeated or added, which is done to either part alike."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.dispatch.composites import whole
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of, parts_of
from onnx_parity.exporter.operators.shape.decompositions import places_by_strides

_aten = torch.ops.aten

by_parts(
    _aten.alias.default,
    _aten.clone.default,
    _aten.detach.default,
    _aten.lift_fresh.default,
    _aten.lift_fresh_copy.default,
    _aten.alias_copy.default,
    _aten.detach_copy.default,
)
by_parts(
    _aten.expand.default,
    _aten.permute.default,
    _aten.transpose.int,
    _aten.t.default,
    _aten.squeeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.unsqueeze.default,
    _aten.flip.default,
    _aten.roll.default,
    _aten.rot90.default,
    _aten.repeat.default,
    _aten.unfold.default,
    _aten.pixel_shuffle.default,
    _aten.pixel_unshuffle.default,
    _aten.im2col.default,
    _aten.col2im.default,
    _aten.expand_copy.default,
    _aten.permute_copy.default,
    _aten.transpose_copy.int,
    _aten.t_copy.default,
    _aten.squeeze_copy.default,
    _aten.squeeze_copy.dim,
    _aten.squeeze_copy.dims,
    _aten.unsqueeze_copy.default,
    _aten.unfold_copy.default,
)
by_parts(
    _aten.select.int,
    _aten.slice.Tensor,
    _aten.narrow.default,
    _aten.split.Tensor,
    _aten.split_with_sizes.default,
    _aten.unbind.int,
    _aten.diagonal.default,
    _aten.diag_embed.default,
    _aten.tril.default,
    _aten.triu.default,
    _aten.gather.default,
    _aten.index_select.default,
    _aten.take.default,
    _aten.select_copy.int,
    _aten.slice_copy.Tensor,
    _aten.narrow_copy.default,
    _aten.split_copy.Tensor,
    _aten.split_with_sizes_copy.default,
    _aten.unbind_copy.int,
    _aten.diagonal_copy.default,
    _aten.embedding.default,
    _aten.trace.default,
)
by_parts(_aten.cat.default, _aten.stack.default, _aten.block_diag.default, data=("tensors",))
by_parts(_aten.where.self, _aten.where.ScalarOther, data=("self", "other"))
by_parts(
    _aten.select_scatter.default,
    _aten.slice_scatter.default,
    _aten.diagonal_scatter.default,
    _aten.scatter.src,
    _aten.scatter_add.default,
    data=("self", "src"),
)
by_parts(_aten.scatter.value, _aten.masked_fill.Scalar, _aten.masked_fill.Tensor, data=("self", "value"))
by_parts(_aten.index_fill.int_Scalar, _aten.index_fill.int_Tensor, data=("self", "value"))
by_parts(_aten.constant_pad_nd.default, data=("self", "value"))
by_parts(_aten.masked_scatter.default, _aten.index_add.default, _aten.index_copy.default, data=("self", "source"))
by_parts(_aten.put.default, data=("self", "source"))


@complex_of(
    _aten.view.default,
    _aten._unsafe_view.default,
    _aten._reshape_alias.default,
    _aten.reshape.default,
    _aten.view_copy.default,
)
def reshape(x: Parts, size: list[int], *strides: Any) -> Parts:
    """Not as views, because the parts may lie in memory in another way than the tensor."""
    return Parts(x.real.reshape(size), x.imag.reshape(size))


@complex_of(_aten._pad_circular.default)
def pad_circular(x: Parts, pad: list[int]) -> Parts:
    pads = whole(_aten._pad_circular.default)
    return Parts(pads(x.real, pad), pads(x.imag, pad))


@complex_of(torch.ops.prims.where.default)
def where(pred: torch.Tensor, a: Operand, b: Operand) -> Parts:
    (real, imag), (other_real, other_imag) = parts_of(a), parts_of(b)
    return Parts(torch.where(pred, real, other_real), torch.where(pred, imag, other_imag))


@complex_of(_aten.index.Tensor, _aten._unsafe_index.Tensor)
def index(x: Parts, indices: list[torch.Tensor | None]) -> Parts:
    places = _places(indices)
    return Parts(_aten.index.Tensor(x.real, places), _aten.index.Tensor(x.imag, places))


@complex_of(_aten.index_put.default, _aten._unsafe_index_put.default)
def index_put(x: Operand, indices: list[torch.Tensor | None], values: Operand, accumulate: bool = False) -> Parts:
    (a, b), (c, d) = parts_of(x), parts_of(values)
    return Parts(
        _aten.index_put.default(a, indices, c.to(a.dtype), accumulate),
        _aten.index_put.default(b, indices, d.to(b.dtype), accumulate),
    )


@complex_of(_aten.scatter.reduce, _aten.scatter.value_reduce)
def scatter_reduce(x: Operand, dim: int, index: torch.Tensor, src: Operand, *, reduce: str) -> Any:
    """A sum, of elements or of one number"""
    if reduce != "add":
        return NotImplemented
    return Parts(*(torch.scatter(part, dim, index, each, reduce="add")
                   for part, each in zip(parts_of(x), parts_of(src), strict=True)))  # fmt: skip


@complex_of(_aten.as_strided.default, _aten.as_strided_copy.default)
def as_strided(x: Parts, size: list[int], stride: list[int], storage_offset: int | None = None) -> Any:
    places = _strided(x, size, stride, storage_offset)
    return NotImplemented if places is None else Parts(torch.take(x.real, places), torch.take(x.imag, places))


@complex_of(_aten.as_strided_scatter.default)
def as_strided_scatter(
    x: Operand, src: Operand, size: list[int], stride: list[int], storage_offset: int | None = None
) -> Any:
    parts = parts_of(x)
    places = _strided(parts, size, stride, storage_offset)
    if places is None:
        return NotImplemented
    return Parts(*(torch.put(part, places, each) for part, each in zip(parts, parts_of(src), strict=True)))


def _strided(x: Parts, size: list[int], stride: list[int], storage_offset: int | None) -> torch.Tensor | None:
    """The indices of elements, if the tensor is known to be row-major in memory, as its parts are then."""
    real = x.real
    expected, steps = 1, []
    for extent in reversed(real.shape):
        steps.append(expected)
        expected = expected * extent
    # The parts of an input have every other element of a tensor that has both.
    is_row_major = any(real.stride() == tuple(each * apart for each in reversed(steps)) for apart in (1, 2))
    if not is_row_major:
        return None
    whole = real.new_empty(real.shape)
    return places_by_strides(whole, size, stride, storage_offset)


@complex_of(_aten.masked_select.default)
def masked_select(x: Parts, mask: torch.Tensor) -> Parts:
    real, imag, mask = torch.broadcast_tensors(*(each if each.dim() else each.reshape(1) for each in (*x, mask)))
    return index(Parts(real, imag), [mask])


def _places(indices: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """The indices with masks replaced by the places of what is true, so that these are counted once for both parts."""
    places: list[torch.Tensor | None] = []
    for each in indices:
        is_mask = each is not None and each.dtype in (torch.bool, torch.uint8)
        places += each.nonzero().unbind(1) if each is not None and is_mask else [each]
    return places


@complex_of(_aten.fill.Scalar, _aten.fill.Tensor)
def fill(x: Any, value: Operand) -> Parts:
    real, imag = parts_of(value)
    like = x.real if isinstance(x, Parts) else x
    return (
        Parts(torch.full_like(like, real), torch.full_like(like, imag))
        if not isinstance(real, torch.Tensor)
        else Parts(real.expand(like.shape), imag.expand(like.shape))
    )
