"""What is recorded for shapes: sizes as tensors, broadcasting, writes to triangles and diagonals, copies of views.

Views by strides are operators that select elements by index, because values of a graph have no memory; so are images
that are made of blocks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import torch

from onnx_parity.exporter.graph.graph import Size, broadcast_size, same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.fakes.metadata import is_surely_contiguous
from onnx_parity.exporter.registry.copies_of_views import record_as_copies_of
from onnx_parity.exporter.registry.in_place import DYNAMIC, copy_back
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of
from onnx_parity.exporter.sizes.defined_where import defined_where
from onnx_parity.exporter.torch_inside.modes import without_dispatch_overrides
from onnx_parity.exporter.torch_inside.this_thread import recorder_here
from onnx_parity.exporter.torch_inside.transforms import runs_backward

__all__ = ["places_by_strides"]

copy_back("tril_", "triu_", to=DYNAMIC)


@instead_of("aten::pixel_unshuffle", why="torch's kernel returns images without pixels as they are")
def pixels_apart(x: torch.Tensor, downscale_factor: int) -> Any:
    sizes: tuple[Size, ...] = tuple(x.shape)
    if any(isinstance(size, int) and not size for size in sizes):
        return x.clone()
    for size in sizes:
        defined_where(size != 0, "PyTorch returns images without pixels as they are")
    return NotImplemented


@instead_of(
    "aten::_shape_as_tensor", why="torch's kernel writes the sizes to memory, which a fake tensor does not have"
)
def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    sizes = [torch.scalar_tensor(size, dtype=torch.int64, device=x.device) for size in x.shape]
    return torch.stack(sizes) if sizes else torch.empty(0, dtype=torch.int64, device=x.device)


@instead_of("aten::_reshape_from_tensor", why="torch's kernel reads the memory of the tensor with the sizes")
def reshape_from_tensor(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    return x.reshape([cast("int", size.item()) for size in shape.unbind(0)])


@instead_of("aten::broadcast_tensors", why="torch expands to a dynamic size that meets a known one, though it may be 1")
def broadcast_tensors(tensors: list[torch.Tensor]) -> Any:
    sizes: list[Size] = []
    for axis in range(-max((x.dim() for x in tensors), default=0), 0):
        met: list[Size] = [x.shape[axis] for x in tensors if x.dim() >= -axis]
        known = {size for size in met if isinstance(size, int)} - {1}
        size: Size | None = max(known, default=1)
        for each in () if known else met:
            size = None if size is None else broadcast_size(size, each)
        if len(known) > 1 or size is None:
            return NotImplemented
        sizes.append(size)
    return [x.expand(sizes) for x in tensors]


@instead_of("aten::fill_diagonal_", where=DYNAMIC.include, why=DYNAMIC.why)
def fill_diagonal_(self: torch.Tensor, fill_value: float, wrap: bool = False) -> Any:
    if self.ndim != 2:
        return NotImplemented
    rows, columns = self.shape
    self.diagonal().fill_(fill_value)
    if wrap:
        # A row is left out behind each square of a tall matrix.
        row, column = torch.arange(rows, device=self.device).unsqueeze(1), torch.arange(columns, device=self.device)
        self.masked_fill_(row % (columns + 1) == column, fill_value)
    return self


# --- if it has no lowering --------------------------------------------------------------------------------------------


_WHY = "it refers to positions in memory, which values of the graph do not have, so elements are selected by index"


@decomposition_of("aten::as_strided", why=_WHY)
def as_strided(
    self: torch.Tensor, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> torch.Tensor:
    taken = as_strided_copy(self, size, stride, storage_offset)
    # The strides of the view decide those of what is computed from it, and another as_strided refers to its memory.
    recorder = recorder_here()
    view: Any = recorder.fake_result(torch.ops.aten.as_strided.default, (self, size, stride, storage_offset), {})
    recorder.adopt(view, recorder.value_of(taken))
    return cast("torch.Tensor", view)


@decomposition_of("aten::as_strided_copy", why=_WHY)
def as_strided_copy(
    self: torch.Tensor, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> torch.Tensor:
    return torch.take(self, places_by_strides(self, size, stride, storage_offset))


@decomposition_of("aten::as_strided_scatter", why=_WHY)
def as_strided_scatter(
    self: torch.Tensor, src: torch.Tensor, size: Sequence[Size], stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> torch.Tensor:  # fmt: skip
    return torch.put(self, places_by_strides(self, size, stride, storage_offset), src)


def places_by_strides(
    x: torch.Tensor, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None
) -> torch.Tensor:
    """The row-major indices of the elements of `x` that the strides refer to in its memory."""
    recorder_here().unclear_layouts.refuse(x)
    offset = x.storage_offset() if storage_offset is None else storage_offset
    known = (*x.shape, *x.stride(), *size, *stride, offset)
    if not all(isinstance(number, int) for number in known):
        return _places_of_dynamic_sizes(x, size, stride, offset)
    own = _memory(x.shape, x.stride(), x.storage_offset())
    element_at = {place: number for number, place in reversed([*enumerate(own)])}
    wanted = _memory(size, stride, offset)
    if any(place not in element_at for place in wanted):
        raise refused_here(
            f"as_strided({list(size)}, {list(stride)}, {offset}) reaches memory outside of its tensor of shape "
            f"{list(x.shape)}: call it on the whole tensor that owns the memory"
        )
    with without_dispatch_overrides():
        places = [element_at[place] for place in wanted]
        return torch.tensor(places, dtype=torch.int64, device=x.device).reshape(tuple(size))


def _places_of_dynamic_sizes(
    x: torch.Tensor, size: Sequence[Any], stride: Sequence[Size], offset: Size
) -> torch.Tensor:
    if _is_called_by_autograd() and not same_size(math.prod(size), math.prod(x.shape)):
        # The gradient of a write to a part. Autograd reads the place of the part as 0 if it is dynamic.
        raise refused_here(
            "the program asks for gradients through a write to a part of a tensor of dynamic size, whose place is not "
            "known: write the part with torch.cat, torch.where or torch.slice_scatter, or remove that axis from "
            "dynamic_axes"
        )
    # Where the elements are in their order in memory, an index is a position in memory. One that is too large fails
    # when the model runs, as it does in torch.
    if not is_surely_contiguous(x) or not same_size(offset, x.storage_offset()):
        raise refused_here(
            "as_strided cannot be exported with dynamic sizes for a tensor that is not contiguous, or from another "
            "place than its first element: call contiguous() before it, or use slices, unfold or expand, which select "
            "elements"
        )
    places = torch.zeros([], dtype=torch.int64, device=x.device)
    for extent, step in zip(size, stride, strict=True):
        steps: torch.Tensor = torch.arange(cast("int", extent), device=x.device) * cast("int", step)
        places = places.unsqueeze(-1) + steps
    return places


def _is_called_by_autograd() -> bool:
    return runs_backward()


def _memory(size: Sequence[Any], stride: Sequence[Any], offset: Any) -> list[int]:
    """The positions of the elements in memory, in row-major order."""
    steps = [range(0, extent * step, step) if step else [0] * extent for extent, step in zip(size, stride, strict=True)]
    return [offset + sum(place) for place in itertools.product(*steps)]


# --- copies of views --------------------------------------------------------------------------------------------------

record_as_copies_of(
    {
        "alias_copy": "alias",
        "detach_copy": "detach",
        "diagonal_copy": "diagonal",
        "expand_copy": "expand",
        "permute_copy": "permute",
        "_reshape_alias_copy": "reshape",
        "squeeze_copy": "squeeze",
        "squeeze_copy.dim": "squeeze.dim",
        "squeeze_copy.dims": "squeeze.dims",
        "t_copy": "t",
        "transpose_copy.int": "transpose.int",
        "unfold_copy": "unfold",
        "unsqueeze_copy": "unsqueeze",
        "view_copy": "reshape",
    }
)


# --- blocks -----------------------------------------------------------------------------------------------------------


@decomposition_of("aten::col2im", why="torch's own scatters elements, also those of blocks that do not overlap")
def col2im(
    self: torch.Tensor, output_size: list[Size], kernel_size: list[int], dilation: list[int], padding: list[int],
    stride: list[int],
) -> Any:  # fmt: skip
    if kernel_size != stride or any(padding) or any(each != 1 for each in dilation):
        return NotImplemented
    # Whether blocks cover an image of dynamic size depends on the size.
    if any(not isinstance(size, int) or size % step for size, step in zip(output_size, stride, strict=True)):
        return NotImplemented
    rows, columns = (size // step for size, step in zip(output_size, stride, strict=True))
    *batch, channels, _ = self.shape
    channels = channels // (kernel_size[0] * kernel_size[1])
    blocks = self.reshape(*batch, channels, *kernel_size, rows, columns)
    first = len(batch)
    moved = blocks.permute(*range(first + 1), first + 3, first + 1, first + 4, first + 2)
    return moved.reshape(*batch, channels, *output_size)
