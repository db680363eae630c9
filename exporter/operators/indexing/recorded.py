"""What is recorded for indices: masks of bytes, elements that dynamic sizes or numbers select, copies of parts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size, is_broadcast, same_shape, same_size
from onnx_parity.exporter.registry.copies_of_views import record_as_copies_of
from onnx_parity.exporter.registry.in_place import DYNAMIC, copy_back
from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, instead_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

copy_back("index_fill_", to=DYNAMIC)


@instead_of("aten::masked_fill_.Tensor", where=any_size_is_dynamic, why=DYNAMIC.why)
def masked_fill_(self: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return self.copy_(torch.ops.aten.masked_fill.Tensor(self, mask, value))


@instead_of(
    "aten::index.Tensor",
    "aten::index_put",
    "aten::index_put_",
    gives_operator=True,
    why="torch treats uint8 indices as masks, with a warning, but its fake kernels refuse them",
)
def index_by_masks_of_bytes(
    op: OpOverload, self: torch.Tensor, indices: Sequence[torch.Tensor | None], *others: Any, **options: Any
) -> Any:
    if not any(index is not None and index.dtype is torch.uint8 for index in indices):
        return NotImplemented
    masks = [index.bool() if index is not None and index.dtype is torch.uint8 else index for index in indices]
    return op(self, masks, *others, **options)


@instead_of("aten::take_along_dim", why="torch's decomposition reads the broadcast sizes as plain ints")
def take_along_dim(x: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> Any:
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
    if is_broadcast(one) or is_broadcast(other):
        return other if is_broadcast(one) else one
    # The comparison of a dynamic size with another one records the assumption that they are equal.
    if same_size(one, other) or one == other:
        return one if isinstance(one, int) else other
    raise RuntimeError(f"sizes {one} and {other} do not broadcast")


def _expanded(x: torch.Tensor, sizes: Sequence[Size | None]) -> torch.Tensor:
    """`x` expanded to these sizes; an axis with None is unchanged."""
    wanted = [own if size is None else size for own, size in zip(x.shape, sizes, strict=True)]
    return x if same_shape(x.shape, wanted) else x.expand(wanted)


@instead_of("aten::combinations", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
def combinations(self: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    if r == 0:
        return self.new_empty([0])
    places = torch.meshgrid([torch.arange(self.shape[0], device=self.device)] * r, indexing="ij")
    chosen = torch.ones_like(places[0], dtype=torch.bool)
    for one, following in itertools.pairwise(places):
        chosen = chosen & (one <= following if with_replacement else one < following)
    return torch.stack([self[place[chosen]] for place in places], 1)


record_as_copies_of({"narrow_copy": "narrow", "select_copy.int": "select.int", "slice_copy.Tensor": "slice.Tensor"})
