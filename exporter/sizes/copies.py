"""Copies of tensors that are none for some sizes: `contiguous()` of a transposed matrix of one row is the matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.expressions.bounds import Range, simplified
from onnx_parity.exporter.expressions.conditions import And, Equal, Or
from onnx_parity.exporter.expressions.expression import Number
from onnx_parity.exporter.graph.graph import Size, Varying
from onnx_parity.exporter.sizes.layouts import are_in_order, may_be_viewed
from onnx_parity.exporter.sizes.size_node import as_number, expression_of_size
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["MAY_COPY", "note_copy", "original_of", "symbols_of"]

#: The operators that return a copy, or the memory of what they are given where it lies as it has to.
MAY_COPY = frozenset({"aten::contiguous", "aten::flatten", "aten::ravel", "aten::reshape", "aten::reshape_as"})

_OCCUPIED, _ONE = Range(1, math.inf), Number(1)


def note_copy(given: torch.Tensor, result: torch.Tensor, order: Sequence[int] | None = None) -> torch.Tensor:
    """What one of these made of a tensor, which is noted if it depends on dynamic sizes whether it is a copy.

    Where it surely is none, as of the column of a single row, it is a view of the tensor, to which a write goes, or
    with an `order` of axes in which it has to lie, as for `contiguous`, the tensor itself. Where that depends on the
    branch that has run, the model has a copy.
    """
    if type(given) is not torch.Tensor:
        return result
    layouts = recorder_here().unclear_layouts
    if layouts.has(given):
        return layouts.copied(given, result)
    if result is given:
        return result
    symbols = symbols_of(given)
    if symbols is not None and _note(symbols, given, result, order):
        return given if order is not None else given.view(result.shape)
    return result


def _note(symbols: Symbols, tensor: torch.Tensor, copy: torch.Tensor, order: Sequence[int] | None) -> bool:
    """Note a tensor and what `contiguous` or `reshape` made of it, which is a copy unless it lies as it has to: for
    the first in this order of its axes, the innermost first. Return whether it surely does."""
    sizes, strides = [*map(expression_of_size, tensor.shape)], [*map(expression_of_size, tensor.stride())]
    new = [*map(expression_of_size, copy.shape)]
    condition = are_in_order(sizes, strides, order) if order is not None else may_be_viewed(sizes, strides, new)
    condition = simplified(condition, dict.fromkeys(condition.free_symbols, _OCCUPIED))
    known = symbols.known_if_occupied(condition)  # Nothing is written to empty tensors.
    if known:
        return True
    # torch's kernels make images in the order of others, which may not be that of their strides here.
    others = [each for each in symbols.not_channels_last if not symbols.known_if_occupied(condition, each)]
    if known is None or others:
        symbols.watch_copy(tensor, copy, Or.of(*others, *([condition] if known is None else [])))
    if known is None and order is not None:
        is_one = Or.of(condition, *(Equal.of(size, Number(0)) for size in sizes))
        symbols.copies[id(copy)] = tensor, copy, as_number(is_one, symbols)
        if order[0] == 1 and len(order) > 3:  # Those of channels last.
            if symbols.known_if_occupied(are_in_order(sizes, strides)):
                condition = Or.of(Equal.of(sizes[1], _ONE), And.of(*(Equal.of(size, _ONE) for size in sizes[2:])))
            symbols.not_channels_last.add(condition)
    return False


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
