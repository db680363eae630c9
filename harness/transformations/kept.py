"""What a transformation must keep of a model: its opset, inputs, outputs and dynamic axes.

An axis of an output that is named after axes of inputs is dynamic, and must stay so. Any other that is no number has a
size that follows from values. A transformation may find out that it is the same for all of them, as that of `x[mask]`
is if the mask is a constant, and may declare this number. `check_sizes` then holds it to the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from itertools import zip_longest

import onnx

from onnx_parity.harness.subjects.delivered import Delivered, inputs_of


class NotKeptError(Exception):
    """The transformed model is not to be used as the model was. The message goes on after the transformation's name."""


def check_kept(before: Delivered, after: Delivered, opset: int | None) -> None:
    """Check the transformed model, and compare its interface with that of the model before. `opset` is the one that a
    converter was asked for."""
    model = after.model
    onnx.checker.check_model(model if isinstance(model, bytes) else str(model), full_check=True)
    wanted = before.opset if opset is None else opset
    if after.opset != wanted:
        raise NotKeptError(f"returned a model of opset {after.opset} instead of {wanted}")
    inputs = inputs_of(before.proto.graph)
    _check_values("input", inputs, inputs_of(after.proto.graph), sizes_stay=True)
    # The sizes of outputs follow from those of the inputs, and a transformation may know less of them.
    dynamic = {name for value in inputs for axis in _axes(value) for name in _NAME.findall(axis.dim_param)}
    _check_values("output", before.proto.graph.output, after.proto.graph.output, sizes_stay=False, dynamic=dynamic)


def check_sizes(before: Delivered, after: Delivered, shapes: Sequence[tuple[int, ...]]) -> None:
    """Compare the sizes that only the transformed model declares for its outputs with the shapes of the results."""
    pairs = list(zip(before.proto.graph.output, after.proto.graph.output, strict=True))
    # The items of a sequence are results of their own, so that there are more or fewer of them than outputs.
    if not all(one.type.HasField("tensor_type") for one, _ in pairs):
        return
    for (one, other), shape in zip(pairs, shapes, strict=True):
        for axis, (was, now, size) in enumerate(zip(_axes(one), _axes(other), shape, strict=False)):
            if now.HasField("dim_value") and not was.HasField("dim_value") and now.dim_value != size:
                raise NotKeptError(f"fixed axis {axis} of output {one.name} to {now.dim_value}, but it can be {size}")


#: The names in the size of an axis, which may be an expression such as `past + sequence`.
_NAME = re.compile(r"[^\W\d]\w*")


def _axes(value: onnx.ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return tuple(value.type.tensor_type.shape.dim)


def _check_values(
    kind: str,
    before: Sequence[onnx.ValueInfoProto],
    after: Sequence[onnx.ValueInfoProto],
    *,
    sizes_stay: bool,
    dynamic: Set[str] = frozenset(),
) -> None:
    """`dynamic` are the names of the axes on which sizes of outputs depend."""
    if [value.name for value in before] != [value.name for value in after]:
        raise NotKeptError(f"changed the {kind}s: they were {_names(before)}, and are {_names(after)}")
    for one, other in zip(before, after, strict=True):
        kinds = _kind(one.type), _kind(other.type)
        if kinds[0] != kinds[1]:
            raise NotKeptError(f"changed the type of {kind} {one.name} from {kinds[0]} to {kinds[1]}")
        if kinds[0].startswith("tensor"):
            types = one.type.tensor_type, other.type.tensor_type
            _check_shape(f"{kind} {one.name}", *types, sizes_stay=sizes_stay, dynamic=dynamic)


def _check_shape(
    what: str, before: onnx.TypeProto.Tensor, after: onnx.TypeProto.Tensor, *, sizes_stay: bool, dynamic: Set[str]
) -> None:
    if not before.HasField("shape") or not (sizes_stay or after.HasField("shape")):
        return
    pairs = list(zip_longest(before.shape.dim, after.shape.dim))
    for axis, (one, other) in enumerate(pairs):
        if one is None or other is None:
            raise NotKeptError(f"changed the rank of {what} from {len(before.shape.dim)} to {len(after.shape.dim)}")
        must_vary = sizes_stay or not dynamic.isdisjoint(_NAME.findall(one.dim_param))
        if not one.HasField("dim_value") and other.HasField("dim_value") and must_vary:
            name = f" ({one.dim_param})" if one.dim_param else ""
            raise NotKeptError(f"fixed axis {axis}{name} of {what}, which was dynamic, to {other.dim_value}")
        stays = other.HasField("dim_value") and one.dim_value == other.dim_value
        if one.HasField("dim_value") and not stays and (sizes_stay or other.HasField("dim_value")):
            now = other.dim_value if other.HasField("dim_value") else "dynamic"
            raise NotKeptError(f"changed axis {axis} of {what} from {one.dim_value} to {now}")


def _names(values: Iterable[onnx.ValueInfoProto]) -> str:
    return ", ".join(value.name for value in values) or "none"


def _kind(of: onnx.TypeProto) -> str:
    """`tensor(float)`, `sequence(tensor(int64))`."""
    if of.HasField("sequence_type"):
        return f"sequence({_kind(of.sequence_type.elem_type)})"
    if of.HasField("optional_type"):
        return f"optional({_kind(of.optional_type.elem_type)})"
    return f"tensor({onnx.TensorProto.DataType.Name(of.tensor_type.elem_type).lower()})"
