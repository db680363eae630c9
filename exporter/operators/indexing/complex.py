"""Elements of complex tensors that are selected or replaced."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of, parts_of

_aten = torch.ops.aten

by_parts(
    "aten::select.int", "aten::slice.Tensor", "aten::narrow", "aten::gather", "aten::index_select", "aten::take",
    "aten::select_copy.int", "aten::slice_copy.Tensor", "aten::narrow_copy",
)  # fmt: skip
by_parts("aten::select_scatter", "aten::slice_scatter", "aten::scatter.src", "aten::scatter_add", data=("self", "src"))
by_parts(
    "aten::scatter.value", "aten::masked_fill.Scalar", "aten::masked_fill.Tensor", "aten::index_fill.int_Scalar",
    "aten::index_fill.int_Tensor", data=("self", "value"),
)  # fmt: skip
by_parts("aten::masked_scatter", "aten::index_add", "aten::index_copy", "aten::put", data=("self", "source"))


@complex_of("aten::index.Tensor", "aten::_unsafe_index.Tensor")
def index(x: Parts, indices: list[torch.Tensor | None]) -> Parts:
    places = _places(indices)
    return Parts(_aten.index.Tensor(x.real, places), _aten.index.Tensor(x.imag, places))


@complex_of("aten::index_put", "aten::_unsafe_index_put")
def index_put(x: Operand, indices: list[torch.Tensor | None], values: Operand, accumulate: bool = False) -> Parts:
    (a, b), (c, d) = parts_of(x), parts_of(values)
    return Parts(
        _aten.index_put.default(a, indices, c.to(a.dtype), accumulate),
        _aten.index_put.default(b, indices, d.to(b.dtype), accumulate),
    )


@complex_of("aten::scatter.reduce", "aten::scatter.value_reduce")
def scatter_reduce(x: Operand, dim: int, index: torch.Tensor, src: Operand, *, reduce: str) -> Any:
    """A sum, of elements or of one number"""
    if reduce != "add":
        return NotImplemented
    return Parts(*(torch.scatter(part, dim, index, each, reduce="add")
                   for part, each in zip(parts_of(x), parts_of(src), strict=True)))  # fmt: skip


@complex_of("aten::masked_select")
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
