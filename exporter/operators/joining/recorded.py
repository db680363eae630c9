"""What is recorded where a tensor is split into parts, and for copies of these."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import torch

from onnx_parity.exporter.dispatch.gradients import is_differentiated
from onnx_parity.exporter.graph.decisions import Decision
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.copies_of_views import record_as_copies_of
from onnx_parity.exporter.registry.recorded import instead_of, named
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_aten = torch.ops.aten


@instead_of("aten::chunk", why="torch's decomposition computes the number of parts, which fixes the size of the axis")
def chunk(x: torch.Tensor, chunks: int, dim: int = 0) -> Any:
    # The result has the requested number of chunks, unless the axis is too short.
    size = x.shape[dim]
    if isinstance(size, int) or chunks < 1:
        return NotImplemented
    if _is_zero(size % chunks):
        part = size // chunks
        return [_aten.slice.Tensor(x, dim, number * part, (number + 1) * part) for number in range(chunks)]
    part = (size + chunks - 1) // chunks
    count = (size + part - 1) // part
    if not isinstance(count, torch.SymInt):
        return _split(x, part, chunks, dim)
    symbols = size.node.shape_env
    is_known = symbols.has_value(count.node.expr)
    in_example = max(int(symbols.number_in_example(count, {})), 1) if is_known else chunks
    parts = _split(x, part, in_example, dim)
    if in_example == chunks == 2:
        # An axis of size 1 is the only one that has not two parts: an empty axis has as many as are asked for.
        as_in_example, others = size != 1, parts[:1]
    else:
        as_in_example, others = count == in_example, _split(x, part, in_example + (1 if in_example == 1 else -1), dim)
    if isinstance(as_in_example, torch.SymBool) and not symbols.decided(as_in_example.node.expr):
        # For sizes other than the example's there are other numbers of parts: a program may ask how many.
        return others if is_known else NotImplemented
    return parts


def _split(x: torch.Tensor, part: Size, number: int, dim: int) -> Any:
    return x.split_with_sizes([*[part] * (number - 1), x.shape[dim] - part * (number - 1)], dim)


def _is_zero(size: Size) -> bool:
    return bool((size if isinstance(size, int) else size.node.expr) == 0)


@instead_of(
    "aten::tensor_split.sections", why="torch's decomposition computes which parts are longer, which fixes the size"
)
def tensor_split(x: torch.Tensor, sections: Size, dim: int = 0) -> Any:
    size = x.shape[dim]
    if isinstance(size, int) or not isinstance(sections, int):
        return NotImplemented
    whole, longer = size // sections, size % sections
    starts = [whole * part + torch.sym_min(part, longer) for part in range(sections + 1)]
    return [_aten.slice.Tensor(x, dim, start, end) for start, end in itertools.pairwise(starts)]


@instead_of(
    "aten::tensor_split.tensor_indices_or_sections", why="torch's decomposition reads the memory of the index tensor"
)
def tensor_split_at(x: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    if places.ndim == 0:
        return _aten.tensor_split.sections(x, places.item(), dim)
    bounds = [0, *(places[number].item() for number in range(places.shape[0])), sys.maxsize]
    return [_aten.slice.Tensor(x, dim, start, end) for start, end in itertools.pairwise(bounds)]


@instead_of(
    "aten::unsafe_chunk",
    "aten::unsafe_split.Tensor",
    "aten::unsafe_split_with_sizes",
    gives_operator=True,
    why="its results share the memory of its argument, which its schema does not say",
)
def split_as_views(op: OpOverload, x: torch.Tensor, how: Any, dim: int = 0) -> list[torch.Tensor]:
    parts: list[torch.Tensor] = named(op.name().replace("unsafe_", ""))(x, how, dim)
    if not is_differentiated():
        return parts
    # Autograd refuses writes to views that one operator returns together.
    ends = itertools.accumulate(part.shape[dim] for part in parts)
    return [x.narrow(dim, end - part.shape[dim], part.shape[dim]) for end, part in zip(ends, parts, strict=True)]


@instead_of("aten::unbind.int", why="what torch does for a write to a part asks for plain sizes")
def unbind(self: torch.Tensor, dim: int = 0) -> Any:
    sizes: list[Size] = [*self.shape]
    dynamic = next((size for size in sizes if isinstance(size, torch.SymInt)), None)
    if dynamic is None or Decision.SELECT_PARTS not in dynamic.node.shape_env.decisions:
        return NotImplemented
    count = sizes[dim]
    return [self.select(dim, part) for part in range(count)] if isinstance(count, int) else NotImplemented


record_as_copies_of(
    {"split_copy.Tensor": "split.Tensor", "split_with_sizes_copy": "split_with_sizes", "unbind_copy.int": "unbind.int"}
)
