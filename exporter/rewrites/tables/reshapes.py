"""Reshapes of what was only reshaped before, and those around products, transposes and padding.

    Reshape(Reshape(x))                              ->  Reshape(x), or x
    Unsqueeze(Unsqueeze(x))                          ->  Unsqueeze(x)
    Reshape(MatMul(Reshape(a), Reshape(b)))          ->  MatMul(a, b)
    Reshape(Transpose(Reshape(x)))                   ->  Transpose(Reshape(x))
    Reshape(Pad(Reshape(x)))                         ->  Pad(Reshape(x))

Where the batch and the heads of an attention are one axis of its products (`torch.bmm`), this removes three nodes. The
last two are of blocks of positions, which a program makes after the heads have become the second axis (Pegasus-X).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import (
    Sizes,
    axes_of,
    ints_of,
    is_read_by_one,
    permutation_of,
    producer_of,
    sizes_of,
    sizes_to_reshape_to,
)
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op, read_found

__all__ = ["RESHAPES"]

#: Operators that give a tensor other axes with the same elements in the same order.
_RESHAPES = ("Reshape", "Unsqueeze", "Squeeze", "Flatten")


def _find_same_shape(node: ir.Node, _walk: Walk) -> ir.Value | NoMatch:
    """A tensor that this reshape, with those before it, gives its own shape back."""
    source, sizes = node.inputs[0], sizes_of(node.outputs[0])
    if sizes is None:
        return NoMatch("sizes are not known")
    while source is not None:
        if sizes_of(source) == sizes:
            return source
        before = producer_of(source, *_RESHAPES)
        source = before.inputs[0] if before is not None else None
    return NoMatch("no tensor before the reshapes has the shape of the result")


class _Unsqueezed(msgspec.Struct, frozen=True):
    source: ir.Value | None
    axes: list[int]


def _find_unsqueezes(node: ir.Node, _walk: Walk) -> _Unsqueezed | NoMatch:
    axes, out, source = axes_of(node), sizes_of(node.outputs[0]), node.inputs[0]
    while axes is not None and (before := producer_of(source, "Unsqueeze")) is not None and is_read_by_one(before):
        first = axes_of(before)
        if first is None or out is None:
            break
        new = {axis % len(out) for axis in axes}
        others = [axis for axis in range(len(out)) if axis not in new]
        axes, source = sorted(new | {others[axis % len(others)] for axis in first}), before.inputs[0]
    if axes is None or source is node.inputs[0]:
        return NoMatch("it does not follow an Unsqueeze that is read here alone and whose axes are known")
    return _Unsqueezed(source, axes)


def _unsqueeze_once(node: ir.Node, found: _Unsqueezed, walk: Walk) -> Op:
    if "axes" in node.attributes:
        return op("Unsqueeze", found.source, axes=found.axes)
    return op("Unsqueeze", found.source, walk.constants.vector(found.axes, node))


class _Reshaped(msgspec.Struct, frozen=True):
    source: ir.Value | None
    #: What the Reshape is given, if not the same as before.
    sizes: list[int] | None


def _find_reshapes(node: ir.Node, _walk: Walk) -> _Reshaped | NoMatch:
    source, given = node.inputs[0], ints_of(node.inputs[1])
    new: list[int] | None = None
    while (before := producer_of(source, *_RESHAPES)) is not None and is_read_by_one(before):
        if (given is None and not _takes_zeros(node)) or (
            given is not None and 0 in given
        ):  # A size of 0 is that of the input's axis.
            other = sizes_to_reshape_to(before.inputs[0], sizes_of(node.outputs[0]))
            if other is None:
                break
            given = new = other
        source = before.inputs[0]
    if source is node.inputs[0]:
        return NoMatch("it does not follow a reshape that is read here alone, or several sizes are dynamic")
    return _Reshaped(source, new)


def _takes_zeros(reshape: ir.Node) -> bool:
    """Whether a size of 0 is one, and not that of the input's axis."""
    return "allowzero" in reshape.attributes and reshape.attributes["allowzero"].as_int() == 1


def _reshape_once(node: ir.Node, found: _Reshaped, walk: Walk) -> Op:
    if found.sizes is None:
        return op("Reshape", found.source, node.inputs[1], attributes_of=node)
    return op("Reshape", found.source, walk.constants.vector(found.sizes, node))


class _Product(msgspec.Struct, frozen=True):
    node: ir.Node
    factors: Sequence[ir.Value | None]


def _find_batches(node: ir.Node, _walk: Walk) -> _Product | NoMatch:
    """A product of matrices whose batch is made one axis before it, and taken apart after it.

    1. Both factors are reshaped from tensors of at least two axes, and keep the last two: only the batch becomes one.
    2. Both tensors have the same batch, axis by axis, so that nothing is broadcast, and the result gets it back.
    3. Nothing else reads the product.
    """
    product, out = producer_of(node.inputs[0], "MatMul"), node.outputs[0]
    if product is None or not is_read_by_one(product):
        return NoMatch("it does not follow a product that is read here alone")
    joined = [each for value in product.inputs if (each := producer_of(value, "Reshape")) is not None]
    if len(joined) != 2:
        return NoMatch("the factors are not reshaped")
    sources = [each.inputs[0] for each in joined]
    a, b, found = (sizes_of(value) for value in (*sources, out))
    if a is None or b is None or found is None or min(len(a), len(b)) < 2:
        return NoMatch("sizes are not known, or a factor was a vector")
    if not a[:-2] == b[:-2] == found[:-2] or found[-2:] != (a[-2], b[-1]):
        return NoMatch("the result has another batch than the factors had")
    if any((sizes_of(each.outputs[0]) or ())[1:] != apart[-2:] for each, apart in zip(joined, (a, b), strict=True)):
        return NoMatch("more than the batch is reshaped")
    return _Product(product, sources)


def _multiply_batches(_node: ir.Node, found: _Product, _walk: Walk) -> Op:
    return op("MatMul", *found.factors, instead_of=found.node)


class _Early(msgspec.Struct, frozen=True):
    """A Reshape that takes axes apart before the operator after it, rather than another reshape after both."""

    first: ir.Node
    moved: ir.Node
    #: The sizes that it gives now, and what it is given for that.
    sizes: Sizes
    given: list[int]
    #: The order in which a Transpose then puts the axes, or by how much a Pad pads them.
    numbers: list[int]


def _find_transpose_between(node: ir.Node, _walk: Walk) -> _Early | NoMatch:
    turn, first = _operator_between(node, "Transpose")
    if turn is None or first is None:
        return NoMatch("it does not follow a Reshape and a Transpose, both read here alone, in the same graph")
    order, before = permutation_of(turn), sizes_of(first.outputs[0])
    parts = None if order is None or before is None else _parts_of_axes([before[axis] for axis in order], node)
    if order is None or before is None or parts is None:
        return NoMatch("axes become one, or sizes are not known")
    split = [parts[order.index(axis)] for axis in range(len(before))]
    starts = list(itertools.accumulate((len(part) for part in split), initial=0))
    merged = [place for axis in order for place in range(starts[axis], starts[axis + 1])]
    return _move_early(first, turn, tuple(size for part in split for size in part), merged)


def _find_pad_between(node: ir.Node, _walk: Walk) -> _Early | NoMatch:
    pad, first = _operator_between(node, "Pad")
    if pad is None or first is None:
        return NoMatch("it does not follow a Reshape and a Pad, both read here alone, in the same graph")
    padded, before = sizes_of(pad.outputs[0]), sizes_of(first.outputs[0])
    amounts = ints_of(pad.inputs[1]) if len(pad.inputs) == 3 else None
    parts = None if padded is None else _parts_of_axes(padded, node)
    if padded is None or before is None or amounts is None or parts is None:
        return NoMatch("axes become one, or sizes or amounts are not known")
    if any(padded[axis] not in part for axis, part in enumerate(parts)):
        return NoMatch("a padded axis is taken apart")
    sizes: list[int | str] = []
    places = []
    for axis, part in enumerate(parts):
        places.append(len(sizes) + part.index(padded[axis]))
        sizes += part
        sizes[places[-1]] = before[axis]
    new = [0] * (2 * len(sizes))
    for axis, place in enumerate(places):
        new[place], new[place + len(sizes)] = amounts[axis], amounts[axis + len(before)]
    return _move_early(first, pad, tuple(sizes), new)


def _operator_between(node: ir.Node, op_type: str) -> tuple[ir.Node | None, ir.Node | None]:
    """The operator before a reshape, and the Reshape before that, if all are in one graph and each is read once."""
    moved = producer_of(node.inputs[0], op_type)
    first = producer_of(moved.inputs[0], "Reshape") if moved is not None else None
    if moved is None or first is None or not first.graph is moved.graph is node.graph:
        return None, None
    return (moved, first) if is_read_by_one(moved) and is_read_by_one(first) else (None, None)


def _move_early(first: ir.Node, moved: ir.Node, sizes: Sizes, numbers: list[int]) -> _Early | NoMatch:
    given = sizes_to_reshape_to(first.inputs[0], sizes)
    return NoMatch("several sizes are dynamic") if given is None else _Early(first, moved, sizes, given, numbers)


def _transpose_later(_node: ir.Node, found: _Early, walk: Walk) -> Op:
    return op("Transpose", _reshape_first(found, walk), perm=found.numbers)


def _pad_later(node: ir.Node, found: _Early, walk: Walk) -> Op:
    pad, reshaped = found.moved, _reshape_first(found, walk)
    return op("Pad", reshaped, walk.constants.vector(found.numbers, node), pad.inputs[2], attributes_of=pad)


def _reshape_first(found: _Early, walk: Walk) -> Op:
    first = found.first
    given = walk.constants.vector(found.given, first)
    return op("Reshape", first.inputs[0], given, sizes=found.sizes, instead_of=first)


def _parts_of_axes(axes: Sequence[int | str], node: ir.Node) -> list[list[int | str]] | None:
    """The sizes into which a reshape takes each axis apart; None if it joins axes."""
    rest = list(sizes_of(node.outputs[0]) or ())
    parts: list[list[int | str]] = []
    for axis in axes:
        part: list[int | str] = []
        while rest and (not part or _product(part) != axis):
            part.append(rest.pop(0))
        if _product(part) != axis:
            return None
        parts.append(part)
    if any(size != 1 for size in rest) or not parts:
        return None
    parts[-1] += rest
    return parts


def _product(part: Sequence[int | str]) -> int | str | None:
    """The product of the sizes of which one may be dynamic, if the others are 1; None if it is not known."""
    names = [size for size in part if not isinstance(size, int)]
    number = math.prod(size for size in part if isinstance(size, int))
    if not names:
        return number
    return names[0] if number == 1 and len(names) == 1 else None


RESHAPES = (
    Rewrite(name="shape given back", at=_RESHAPES, find=_find_same_shape, write=read_found, for_outputs=False),
    Rewrite(name="unsqueeze after unsqueezes", at=("Unsqueeze",), find=_find_unsqueezes, write=_unsqueeze_once),
    Rewrite(name="reshape after reshapes", at=("Reshape",), find=_find_reshapes, write=_reshape_once),
    Rewrite(
        name="batch of a product of matrices",
        at=("Reshape",),
        find=_find_batches,
        write=_multiply_batches,
        for_outputs=False,
    ),
    Rewrite(name="reshape after a transpose", at=_RESHAPES, find=_find_transpose_between, write=_transpose_later),
    Rewrite(name="reshape after padding", at=_RESHAPES, find=_find_pad_between, write=_pad_later),
)
