"""Merges transposes and joins that follow each other, slices of joins, reshapes of what was only reshaped before, and
those around products.
"""

from __future__ import annotations

import itertools

import onnx_ir as ir

from onnx_parity.exporter.passes.matching import ints_of, is_read_by_one, permutation_of, producer_of, sizes_of
from onnx_parity.exporter.passes.vectors import Vectors

__all__ = ["merge_moves"]

#: Operators that give a tensor other axes with the same elements in the same order.
_RESHAPES = ("Reshape", "Unsqueeze", "Squeeze", "Flatten")


def merge_moves(model: ir.Model) -> None:
    """Merge each Transpose into the one before it, each Reshape, and each Concat along the same axis, if nothing else
    reads what is between them.

    This removes a node from each attention, whose keys are transposed for the heads and once more for the product, and
    three more where the batch and the heads are one axis of the product (`torch.bmm`).
    """
    vectors, lengths = Vectors(model.graph), _Lengths()
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain:
            continue
        if node.op_type == "Transpose":
            _merge_transposes(node)
        elif node.op_type in _RESHAPES:
            _merge_reshapes(node, vectors)
            if node.op_type == "Reshape":
                _take_batches_apart(node)
        elif node.op_type == "Concat":
            _merge_joins(node, lengths)
        elif node.op_type == "Slice":
            _slice_parts(node, vectors, lengths)


def _merge_transposes(node: ir.Node) -> None:
    before = producer_of(node.inputs[0], "Transpose")
    if before is None or not is_read_by_one(before):
        return
    first, then = permutation_of(before), permutation_of(node)
    if first is None or then is None:
        return
    merged = [first[axis] for axis in then]
    source, out = before.inputs[0], node.outputs[0]
    if merged == sorted(merged) and source is not None and not out.is_graph_output():
        out.replace_all_uses_with(source)
        return
    node.replace_input_with(0, source)
    if merged == sorted(merged):  # An output of the model keeps its name.
        node.op_type = "Identity"
        node.attributes.clear()
    else:
        node.attributes["perm"] = ir.AttrInt64s("perm", merged)


def _merge_reshapes(node: ir.Node, vectors: Vectors) -> None:
    """Read what is reshaped from before the reshapes that lead to it."""
    if _is_given_back(node):
        return
    if node.op_type == "Unsqueeze":
        _merge_unsqueezes(node, vectors)
    if node.op_type != "Reshape":
        return
    while (before := _reshape_before(node)) is not None and before.graph is not None and is_read_by_one(before):
        sizes = ints_of(node.inputs[1])
        if sizes is None or 0 in sizes:  # A size of 0 is that of the input's axis.
            sizes = _sizes_to_reshape_to(before.inputs[0], node.outputs[0])
            if sizes is None:
                return
            node.replace_input_with(1, vectors.of(sizes, node))
            node.attributes.clear()
        node.replace_input_with(0, before.inputs[0])
        before.graph.remove(before, safe=True)


def _is_given_back(node: ir.Node) -> bool:
    """Whether a reshape, with those before it, gave a tensor its own shape back, so that the tensor is read now."""
    out, source = node.outputs[0], node.inputs[0]
    sizes = sizes_of(out)
    if sizes is None or out.is_graph_output():
        return False
    while source is not None:
        if sizes_of(source) == sizes:
            out.replace_all_uses_with(source)
            return True
        before = source.producer()
        if before is None or before.domain or before.op_type not in _RESHAPES:
            return False
        source = before.inputs[0]
    return False


def _reshape_before(node: ir.Node) -> ir.Node | None:
    before = node.inputs[0].producer() if node.inputs[0] is not None else None
    return before if before is not None and not before.domain and before.op_type in _RESHAPES else None


def _sizes_to_reshape_to(source: ir.Value | None, out: ir.Value) -> list[int] | None:
    """What a Reshape is given, where a size is 0 that is that of the source's axis, and one other may be -1."""
    before, after = sizes_of(source), sizes_of(out)
    if before is None or after is None or 0 in after:
        return None
    sizes = [
        size if isinstance(size, int) else 0 if axis < len(before) and before[axis] == size else -1
        for axis, size in enumerate(after)
    ]
    return sizes if sizes.count(-1) <= 1 else None


def _merge_unsqueezes(node: ir.Node, vectors: Vectors) -> None:
    while (before := producer_of(node.inputs[0], "Unsqueeze")) is not None and is_read_by_one(before):
        first, then, out = _axes_of(before), _axes_of(node), sizes_of(node.outputs[0])
        if first is None or then is None or out is None or before.graph is None:
            return
        new = {axis % len(out) for axis in then}
        others = [axis for axis in range(len(out)) if axis not in new]
        axes = sorted(new | {others[axis % len(others)] for axis in first})
        if "axes" in node.attributes:
            node.attributes["axes"] = ir.AttrInt64s("axes", axes)
        else:
            node.replace_input_with(1, vectors.of(axes, node))
        node.replace_input_with(0, before.inputs[0])
        before.graph.remove(before, safe=True)


def _axes_of(node: ir.Node) -> list[int] | None:
    """The axes of an Unsqueeze, which are an attribute in early opsets and an input later."""
    if "axes" in node.attributes:
        return list(node.attributes["axes"].as_ints())
    return ints_of(node.inputs[1])


def _merge_joins(node: ir.Node, lengths: _Lengths) -> None:
    joined: list[ir.Value | None] = []
    for value in node.inputs:
        if len(node.inputs) > 1 and lengths.of(value, _axis_of(node)) == 0:
            continue
        before = producer_of(value, "Concat")
        if before is not None and is_read_by_one(before) and _axis_of(before) == _axis_of(node):
            joined += before.inputs
        else:
            joined.append(value)
    if len(joined) == 1 and not node.outputs[0].is_graph_output() and joined[0] is not None:
        node.outputs[0].replace_all_uses_with(joined[0])
    elif joined and joined != list(node.inputs):
        node.resize_inputs(len(joined))
        for place, value in enumerate(joined):
            node.replace_input_with(place, value)


class _Lengths:
    """How long values are along an axis, where passes know of no shape: parts that a program writes to, and slices."""

    def __init__(self) -> None:
        self._known: dict[tuple[ir.Value, int], int | None] = {}

    def of(self, value: ir.Value | None, axis: int) -> int | None:
        if value is None:
            return None
        if (value, axis) not in self._known:
            # The values before it are known already, because nodes are visited in their order.
            self._known[value, axis] = self._found(value, axis)
        return self._known[value, axis]

    def _found(self, value: ir.Value, axis: int) -> int | None:
        size = value.shape[axis] if value.shape is not None else None
        if isinstance(size, int):
            return size
        node = value.producer()
        if node is None or node.domain:
            return None
        if node.op_type == "Unsqueeze":
            axes = _axes_of(node)
            return 1 if axes is not None and axis in axes else None
        if node.op_type == "Concat" and _axis_of(node) == axis:
            parts = [self.of(part, axis) for part in node.inputs]
            return None if None in parts else sum(part for part in parts if part is not None)
        bounds = self.bounds(node) if node.op_type == "Slice" else None
        return bounds[2] - bounds[1] if bounds is not None and bounds[0] == axis else None

    def bounds(self, node: ir.Node) -> tuple[int, int, int] | None:
        """The axis of a Slice along one axis and without a step, and where it starts and stops."""
        if "axes" in node.attributes:
            given = [list(node.attributes[name].as_ints()) for name in ("starts", "ends", "axes")]
        elif len(node.inputs) in (4, 5):
            found = [ints_of(value) for value in node.inputs[1:]]
            if any(each is None for each in found) or (len(found) == 4 and found[3] != [1]):
                return None
            given = [each for each in found[:3] if each is not None]
        else:
            return None
        if any(len(each) != 1 for each in given):
            return None
        (start,), (stop,), (axis,) = given
        length = self.of(node.inputs[0], axis) if axis >= 0 else None
        if length is None:
            return None
        first, last, _ = slice(start, stop).indices(length)
        return axis, first, max(first, last)


def _slice_parts(node: ir.Node, vectors: Vectors, lengths: _Lengths) -> None:
    """Read the parts that a slice of a join consists of, or the one part in which it lies.

    A loop that writes to y[:, 0], y[:, 1], ... joins what is before each, the new value and what is after it.
    """
    bounds, out = lengths.bounds(node), node.outputs[0]
    if bounds is None:
        return
    axis, start, stop = bounds
    source = node.inputs[0]
    while source is not None and start < stop:
        inner = producer_of(source, "Slice")
        of_inner = lengths.bounds(inner) if inner is not None else None
        if inner is not None and of_inner is not None and of_inner[0] == axis:
            source, start, stop = inner.inputs[0], start + of_inner[1], stop + of_inner[1]
            continue
        join = producer_of(source, "Concat")
        sizes = [lengths.of(part, axis) for part in join.inputs] if join is not None and _axis_of(join) == axis else []
        if join is None or not sizes or None in sizes:
            break
        ends = list(itertools.accumulate(size for size in sizes if size is not None))
        starts = [0, *ends[:-1]]
        inside = [place for place, (a, b) in enumerate(zip(starts, ends, strict=True)) if max(a, start) < min(b, stop)]
        if starts[inside[0]] == start and ends[inside[-1]] == stop and len(inside) > 1:
            parts = [join.inputs[place] for place in inside]
            node.op_type = "Concat"
            node.attributes.clear()
            node.attributes["axis"] = ir.AttrInt64("axis", axis)
            node.resize_inputs(len(parts))
            for place, part in enumerate(parts):
                node.replace_input_with(place, part)
            return
        if len(inside) > 1:
            break
        source, start, stop = join.inputs[inside[0]], start - starts[inside[0]], stop - starts[inside[0]]
    if source is None or source is node.inputs[0]:
        return
    if (start, stop) == (0, lengths.of(source, axis)) and not out.is_graph_output():
        out.replace_all_uses_with(source)
        return
    node.replace_input_with(0, source)
    if "axes" in node.attributes:
        node.attributes["starts"] = ir.AttrInt64s("starts", [start])
        node.attributes["ends"] = ir.AttrInt64s("ends", [stop])
    else:
        node.replace_input_with(1, vectors.of([start], node))
        node.replace_input_with(2, vectors.of([stop], node))


def _axis_of(join: ir.Node) -> int:
    return join.attributes["axis"].as_int()


def _take_batches_apart(node: ir.Node) -> None:
    """Leave the axes of a batch apart that are made one for a product of matrices and are taken apart after it.

    1. Both factors are reshaped from tensors of at least two axes, and keep the last two: only the batch becomes one.
    2. Both tensors have the same batch, axis by axis, so that nothing is broadcast, and the result gets it back.
    3. Nothing else reads the product, and the result is not an output of the model, which would lose its name.
    """
    product, out = producer_of(node.inputs[0], "MatMul"), node.outputs[0]
    if product is None or out.is_graph_output() or not is_read_by_one(product):
        return
    joined = [each for value in product.inputs if (each := producer_of(value, "Reshape")) is not None]
    if len(joined) != 2:
        return
    sources = [each.inputs[0] for each in joined]
    a, b, found = (sizes_of(value) for value in (*sources, out))
    if a is None or b is None or found is None or min(len(a), len(b)) < 2:
        return
    if not a[:-2] == b[:-2] == found[:-2] or found[-2:] != (a[-2], b[-1]):
        return
    if any((sizes_of(each.outputs[0]) or ())[1:] != apart[-2:] for each, apart in zip(joined, (a, b), strict=True)):
        return
    for index, source in enumerate(sources):
        product.replace_input_with(index, source)
    product.outputs[0].shape = out.shape
    out.replace_all_uses_with(product.outputs[0])
