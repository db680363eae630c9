"""Copies of tensors that are none for some sizes: `contiguous()` of a transposed matrix of one row is the matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.expressions.bounds import Range, simplified
from onnx_parity.exporter.expressions.conditions import Equal, Or
from onnx_parity.exporter.expressions.expression import Expression, Number
from onnx_parity.exporter.graph.graph import Size, Varying
from onnx_parity.exporter.sizes.layouts import are_in_order, may_be_viewed
from onnx_parity.exporter.sizes.size_node import as_number, expression_of_size

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["MAY_COPY", "copy_or_view", "original_of", "symbols_of"]

#: The operators that return a copy, or the memory of what they are given where it lies as it has to.
MAY_COPY = frozenset({"aten::contiguous", "aten::flatten", "aten::reshape", "aten::reshape_as"})

_OCCUPIED = Range(1, math.inf)


def copy_or_view(
    given: torch.Tensor, result: torch.Tensor, order: Sequence[int] | None = None
) -> tuple[torch.Tensor, Expression | None]:
    """What one of these returns for a tensor of dynamic sizes, of which torch made a copy, or none because it is empty
    in the recording; and the condition on sizes with which it is none, if that depends on them.

    Where it surely is none, as of the column of a single row, it is a view of the tensor, to which a write goes, or
    with an `order` of axes in which it has to lie, as for `contiguous`, the tensor itself. Where that depends on the
    branch that has run, the model has a copy.
    """
    symbols = symbols_of(given)
    if symbols is None:
        return result, None
    sizes, strides = [*map(expression_of_size, given.shape)], [*map(expression_of_size, given.stride())]
    is_empty = any(symbols.value_of(each) == 0 for each in sizes)
    if result is given and not is_empty:
        return result, None
    new = [*map(expression_of_size, result.shape)]
    condition = are_in_order(sizes, strides, order) if order is not None else may_be_viewed(sizes, strides, new)
    condition = simplified(condition, dict.fromkeys(condition.free_symbols, _OCCUPIED))
    known = symbols.known_if_occupied(condition)  # Nothing is written to empty tensors.
    if known:
        return given if order is not None else given.view(result.shape), None
    if is_empty:
        result = result.clone()
    if known is None and order is not None:
        is_one = Or.of(condition, *(Equal.of(size, Number(0)) for size in sizes))
        symbols.copies[id(result)] = given, result, as_number(is_one, symbols)
    return result, condition if known is None else None


def symbols_of(tensor: torch.Tensor) -> Symbols | None:
    """The symbols of the dynamic sizes of a tensor; None if it has none."""
    sizes: Sequence[Size] = tensor.shape
    return next((size.node.shape_env for size in sizes if isinstance(size, Varying)), None)


def original_of(copy: torch.Tensor) -> tuple[torch.Tensor | None, Any]:
    """The tensor that `contiguous` was called on, for one that it returned, and the question whether the two are one:
    where the other lies as it has to, which depends on dynamic sizes. None for any other tensor."""
    symbols = symbols_of(copy)
    original, _, is_one = (None, None, False) if symbols is None else symbols.copies.get(id(copy), (None, None, False))
    return original, is_one
