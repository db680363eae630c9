"""Functions that index at symbolic places: `x.select(0, n)`, `x.narrow(0, n, 2)`, `torch.unravel_index(x, (n, 2))`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.sizes.symbolic_numbers import read_number, read_numbers_after, with_symbolic_numbers

__all__: list[str] = []

_Function = Callable[..., Any]

read_numbers_after(1, torch.select, torch.Tensor.select)


@with_symbolic_numbers(torch.narrow, torch.Tensor.narrow, "aten::narrow")
def narrow(torchs: _Function, input: torch.Tensor, dim: Any, start: Any, length: Any) -> Any:
    """A place that is not known may count from the end: torch's own asks whether it is negative, which would fix it.

    The result is a view, into which can be written.
    """
    dim, start, length = map(read_number, (dim, start, length))
    if not isinstance(start, torch.SymInt):
        return torchs(input, dim, start, length)
    size = input.shape[dim]
    symbols = start.node.shape_env
    counts_from_end = torch.sym_min(torch.sym_max(-start, 0), 1)
    first = start if symbols.never_negative(start) else start + size * counts_from_end
    # torch raises if the result is not within the axis.
    for low, high in ((0, first), (first, size), (first, first + length), (first + length, size)):
        symbols.know_order(low, high)
    return torch.ops.aten.slice.Tensor(input, dim, first, first + length)


@with_symbolic_numbers(torch.unravel_index)
def unravel_index(torchs: _Function, indices: torch.Tensor, shape: Any) -> Any:
    """torch makes a tensor of the shape."""
    sizes: Sequence[Any] = shape if isinstance(shape, (list, tuple)) else [shape]
    if not any(isinstance(each, Varying) for each in sizes):
        return NotImplemented
    found = []
    for size in reversed(sizes):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))
