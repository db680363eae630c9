"""Functions of symbolic sizes and diagonals: `x.view(n, 2)`, `x.diagonal(n)`, `torch.tril_indices(n, n)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying, same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.sizes.copies import original_of, symbols_of
from onnx_parity.exporter.sizes.layouts import order_of
from onnx_parity.exporter.sizes.symbolic_numbers import read_number, read_numbers_after, with_symbolic_numbers
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller, current_frame, runs_users_code, who_asks
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__: list[str] = []

asks_for_its_caller(__file__)

_Function = Callable[..., Any]

read_numbers_after(1, "torch.reshape", *(f"torch.Tensor.{each}" for each in ("view", "expand", "repeat", "reshape")))


@with_symbolic_numbers(torch.diagonal, torch.Tensor.diagonal, "aten::diagonal")
def diagonal(torchs: _Function, input: torch.Tensor, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The main diagonal of the rows or columns that begin at an offset that is not known: a view, for writes."""
    offset = read_number(offset)
    if not isinstance(offset, torch.SymInt):
        return torchs(input, offset, dim1, dim2)
    symbols = offset.node.shape_env
    for dim, start in ((dim1, torch.sym_max(-offset, 0)), (dim2, torch.sym_max(offset, 0))):
        size = input.shape[dim]
        first = torch.sym_min(start, size)
        symbols.know_order(0, first)
        symbols.know_order(first, size)
        input = torch.ops.aten.slice.Tensor(input, dim, first, size)
    return input.diagonal(0, dim1, dim2)


@with_symbolic_numbers(torch.Tensor.unfold, "aten::unfold")
def unfold(torchs: _Function, input: torch.Tensor, dimension: int, size: Any, step: Any) -> Any:
    """Windows of an axis, whose size is not known. They are a view where they lie side by side, and else a copy."""
    size, step = read_number(size), read_number(step)
    if type(size) is type(step) is int:
        return torchs(input, dimension, size, step)
    axis = dimension % input.ndim
    count = (input.shape[axis] - size) // step + 1
    if same_size(size, step):
        windows = input.narrow(axis, 0, count * size).unflatten(axis, (count, size))
    else:
        starts, offsets = (torch.arange(each, device=input.device) for each in (count, size))
        places = (starts * step).unsqueeze(1) + offsets
        windows = input.index_select(axis, places.flatten()).unflatten(axis, (count, size))
    return windows.movedim(axis + 1, -1)


@with_symbolic_numbers("aten::diag")
def diag(operator: _Function, input: torch.Tensor, offset: Any) -> Any:
    """The diagonal of a matrix as a new tensor."""
    return NotImplemented if input.ndim == 1 else diagonal(torch.diagonal, input, offset).clone()


@with_symbolic_numbers(torch.tril_indices, torch.triu_indices, "aten::tril_indices", "aten::triu_indices")
def indices_of_triangle(
    torchs: _Function, row: Any, col: Any, offset: Any = 0, *, dtype: torch.dtype = torch.int64, device: Any = None,
    **options: Any,
) -> Any:  # fmt: skip
    if not any(isinstance(each, Varying) for each in (row, col, offset)):
        return NotImplemented
    part = torch.tril if torchs.__name__ == "tril_indices" else torch.triu
    inside = part(torch.ones(row, col, dtype=torch.bool, device=device), offset)
    return inside.nonzero().T.to(dtype)


# --- questions about sizes, which torch asks in C++, where they would be no branch of the program ---------------------


@with_symbolic_numbers("torch.Tensor.is_contiguous")
def is_contiguous(
    torchs: _Function, input: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
) -> Any:
    _refuse_unclear_layout(input)
    order = order_of(memory_format, input.ndim)
    if order is None or symbols_of(input) is None:
        return NotImplemented
    sizes, strides = input.shape, input.stride()
    expected: Any = 1
    for axis in order:
        size, stride = sizes[axis], strides[axis]
        if not same_size(stride, expected) and not bool(size == 1) and not bool(stride == expected):
            return any(bool(each == 0) for each in sizes)
        expected = expected * size
    return True


@with_symbolic_numbers("torch.Tensor.stride")
def stride(torchs: _Function, input: torch.Tensor, dim: int | None = None) -> Any:
    """The strides of a tensor that `contiguous` returned are those of what it was called on, where that is the same."""
    _refuse_unclear_layout(input)
    original, is_one = original_of(input)
    if isinstance(is_one, torch.SymBool) and not is_one.node.has_hint() and not _is_asked_by_user():
        return NotImplemented  # Where they are one, only axes of one element have other strides.
    if original is None or not is_one:
        return NotImplemented
    return original.stride() if dim is None else original.stride(dim)


def _refuse_unclear_layout(input: torch.Tensor) -> None:
    if _is_asked_by_user():
        recorder_here().unclear_layouts.refuse(input)


def _is_asked_by_user() -> bool:
    return runs_users_code(who_asks(current_frame(1)).frame)


@with_symbolic_numbers(torch.Tensor.storage_offset)
def storage_offset(torchs: _Function, input: torch.Tensor) -> Any:
    """The recording does not follow where a slice of a dynamic axis begins in memory."""
    is_dynamic = any(isinstance(size, Varying) for size in (*input.shape, *input.stride()))
    if is_dynamic and runs_users_code(who_asks(current_frame())[0]):
        raise refused_here(
            "the program asks where in its memory a tensor of dynamic sizes begins, which values of a model do not "
            "have: compute it from sizes, or leave these axes out of dynamic_axes"
        )
    return NotImplemented


@with_symbolic_numbers(torch.Tensor.is_same_size)
def is_same_size(torchs: _Function, input: torch.Tensor, other: torch.Tensor) -> Any:
    if not any(isinstance(size, Varying) for size in (*input.shape, *other.shape)) or input.ndim != other.ndim:
        return NotImplemented
    return all(same_size(one, two) or bool(one == two) for one, two in zip(input.shape, other.shape, strict=True))
