"""Takes axes apart, and adds axes of size 1, in the Reshape before a Transpose or a Pad rather than after it.

Examples are blocks of positions, which a program makes after the heads have become the second axis (Pegasus-X).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import onnx_ir as ir

from onnx_parity.exporter.passes.matching import Sizes, ints_of, is_read_by_one, permutation_of, producer_of, sizes_of
from onnx_parity.exporter.passes.new_constants import NewConstants

__all__ = ["remove_node", "reshape_early", "sizes_to_reshape_to"]


def reshape_early(node: ir.Node, constants: NewConstants) -> None:
    """Let the Reshape before the operator that a reshape follows do what both do, if all three are in one graph and
    nothing else reads what is between them."""
    moved = node.inputs[0].producer() if node.inputs[0] is not None else None
    first = producer_of(moved.inputs[0], "Reshape") if moved is not None and moved.inputs else None
    if moved is None or first is None or moved.domain or not first.graph is moved.graph is node.graph:
        return
    if is_read_by_one(moved) and is_read_by_one(first):
        if moved.op_type == "Transpose":
            _split_before_transpose(node, moved, first, constants)
        elif moved.op_type == "Pad":
            _unsqueeze_before_pad(node, moved, first, constants)


def _split_before_transpose(node: ir.Node, turn: ir.Node, first: ir.Node, constants: NewConstants) -> None:
    order, before = permutation_of(turn), sizes_of(first.outputs[0])
    if order is None or before is None:
        return
    parts = _parts_of_axes([before[axis] for axis in order], sizes_of(node.outputs[0]))
    if parts is None:
        return
    split = [parts[order.index(axis)] for axis in range(len(before))]
    if not _reshape_to(first, tuple(size for part in split for size in part), constants):
        return
    starts = list(itertools.accumulate((len(part) for part in split), initial=0))
    merged = [place for axis in order for place in range(starts[axis], starts[axis + 1])]
    node.op_type = "Transpose"
    node.attributes.clear()
    node.attributes["perm"] = ir.AttrInt64s("perm", merged)
    node.resize_inputs(1)
    node.replace_input_with(0, first.outputs[0])
    remove_node(turn)


def _unsqueeze_before_pad(node: ir.Node, pad: ir.Node, first: ir.Node, constants: NewConstants) -> None:
    padded, before = sizes_of(pad.outputs[0]), sizes_of(first.outputs[0])
    amounts = ints_of(pad.inputs[1]) if len(pad.inputs) == 3 else None
    if padded is None or before is None or amounts is None:
        return
    parts = _parts_of_axes(padded, sizes_of(node.outputs[0]))
    if parts is None or any(padded[axis] not in part for axis, part in enumerate(parts)):
        return
    sizes: list[int | str] = []
    places = []
    for axis, part in enumerate(parts):
        places.append(len(sizes) + part.index(padded[axis]))
        sizes += part
        sizes[places[-1]] = before[axis]
    if not _reshape_to(first, tuple(sizes), constants):
        return
    new = [0] * (2 * len(sizes))
    for axis, place in enumerate(places):
        new[place], new[place + len(sizes)] = amounts[axis], amounts[axis + len(before)]
    node.op_type = "Pad"
    node.attributes.clear()
    node.attributes.update(pad.attributes)
    node.resize_inputs(3)
    for place, value in enumerate((first.outputs[0], constants.vector(new, node), pad.inputs[2])):
        node.replace_input_with(place, value)
    remove_node(pad)


def _reshape_to(node: ir.Node, sizes: Sizes, constants: NewConstants) -> bool:
    """Let a Reshape give its result other sizes. Whether these can be given."""
    given = sizes_to_reshape_to(node.inputs[0], sizes)
    if given is None:
        return False
    node.replace_input_with(1, constants.vector(given, node))
    node.attributes.clear()
    node.outputs[0].shape = ir.Shape(sizes)
    return True


def _parts_of_axes(axes: Sequence[int | str], sizes: Sizes | None) -> list[list[int | str]] | None:
    """The sizes into which a reshape takes each axis apart; None if it joins axes."""
    rest = list(sizes or ())
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


def sizes_to_reshape_to(source: ir.Value | None, after: Sizes | None) -> list[int] | None:
    """What a Reshape is given, where a size is 0 that is that of the source's axis, and one other may be -1."""
    before = sizes_of(source)
    if before is None or after is None or 0 in after:
        return None
    sizes = [
        size if isinstance(size, int) else 0 if axis < len(before) and before[axis] == size else -1
        for axis, size in enumerate(after)
    ]
    return sizes if sizes.count(-1) <= 1 else None


def remove_node(node: ir.Node) -> None:
    """Remove a node that nothing reads any more, which would still read its inputs."""
    assert node.graph is not None
    node.graph.remove(node, safe=True)
