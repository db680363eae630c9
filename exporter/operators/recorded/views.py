"""Views by strides, recorded as operators that select elements by index, because values of a graph have no memory; and
copies of views, recorded as the view and a copy; and `unsafe_split`, whose results are views, recorded as such.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.utils._pytree import tree_map

from onnx_parity.exporter.dispatch.gradients import is_differentiated
from onnx_parity.exporter.graph.decisions import Decision
from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.operators.recorded.view_sizes import is_surely_contiguous
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of, named

__all__ = ["places_by_strides"]

_WHY = "it refers to positions in memory, which values of the graph do not have, so elements are selected by index"


@decomposition_of("aten::as_strided", "aten::as_strided_copy", why=_WHY)
def _as_strided(
    self: torch.Tensor, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> torch.Tensor:
    return torch.take(self, places_by_strides(self, size, stride, storage_offset))


@decomposition_of("aten::as_strided_scatter", why=_WHY)
def _as_strided_scatter(
    self: torch.Tensor,
    src: torch.Tensor,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> torch.Tensor:
    return torch.put(self, places_by_strides(self, size, stride, storage_offset), src)


def _safely_split(name: str) -> None:
    @instead_of(
        f"aten::unsafe_{name}", why="its results share the memory of its argument, which its schema does not say"
    )
    def split(x: torch.Tensor, how: Any, dim: int = 0) -> list[torch.Tensor]:
        parts: list[torch.Tensor] = named(f"aten::{name}")(x, how, dim)
        if not is_differentiated():
            return parts
        # Autograd refuses writes to views that one operator returns together.
        ends = itertools.accumulate(part.shape[dim] for part in parts)
        return [x.narrow(dim, end - part.shape[dim], part.shape[dim]) for end, part in zip(ends, parts, strict=True)]


for _name in ("chunk", "split.Tensor", "split_with_sizes"):
    _safely_split(_name)


def places_by_strides(
    x: torch.Tensor, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None
) -> torch.Tensor:
    """The row-major indices of the elements of `x` that the strides refer to in its memory."""
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
    with torch._C._DisableTorchDispatch():
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
    return torch._C._current_graph_task_id() != -1


def _memory(size: Sequence[Any], stride: Sequence[Any], offset: Any) -> list[int]:
    """The positions of the elements in memory, in row-major order."""
    steps = [range(0, extent * step, step) if step else [0] * extent for extent, step in zip(size, stride, strict=True)]
    return [offset + sum(place) for place in itertools.product(*steps)]


@instead_of("aten::unbind.int", why="what torch does for a write to a part asks for plain sizes")
def _unbind(self: torch.Tensor, dim: int = 0) -> Any:
    sizes: list[Size] = [*self.shape]
    dynamic = next((size for size in sizes if isinstance(size, torch.SymInt)), None)
    if dynamic is None or Decision.SELECT_PARTS not in dynamic.node.shape_env.decisions:
        return NotImplemented
    count = sizes[dim]
    return [self.select(dim, part) for part in range(count)] if isinstance(count, int) else NotImplemented


# --- copies of views --------------------------------------------------------------------------------------------------

_READS_OFFSETS = "torch 2.13's decomposition reads storage offsets, which tensors with dynamic sizes do not have"
_VIEWS = {
    "alias_copy": "alias",
    "detach_copy": "detach",
    "diagonal_copy": "diagonal",
    "expand_copy": "expand",
    "narrow_copy": "narrow",
    "permute_copy": "permute",
    "_reshape_alias_copy": "reshape",
    "select_copy.int": "select.int",
    "slice_copy.Tensor": "slice.Tensor",
    "split_copy.Tensor": "split.Tensor",
    "split_with_sizes_copy": "split_with_sizes",
    "squeeze_copy": "squeeze",
    "squeeze_copy.dim": "squeeze.dim",
    "squeeze_copy.dims": "squeeze.dims",
    "t_copy": "t",
    "transpose_copy.int": "transpose.int",
    "unbind_copy.int": "unbind.int",
    "unfold_copy": "unfold",
    "unsqueeze_copy": "unsqueeze",
    "view_copy": "reshape",
}


def _copied(view: str) -> Callable[..., Any]:
    def copy(*args: Any, **kwargs: Any) -> Any:
        parts = named(f"aten::{view}")(*args, **kwargs)
        return tree_map(lambda part: part.clone(memory_format=torch.contiguous_format), parts)

    return copy


for _copy, _view in _VIEWS.items():
    decomposition_of(f"aten::{_copy}", why=_READS_OFFSETS)(_copied(_view))
