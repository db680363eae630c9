"""What a transformation must keep of a model: its opset, inputs, outputs and dynamic axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    _check_values("input", inputs_of(before.proto.graph), inputs_of(after.proto.graph), sizes_stay=True)
    # The sizes of outputs follow from those of the inputs, and a transformation may know less of them.
    _check_values("output", before.proto.graph.output, after.proto.graph.output, sizes_stay=False)


def _check_values(
    kind: str, before: Sequence[onnx.ValueInfoProto], after: Sequence[onnx.ValueInfoProto], *, sizes_stay: bool
) -> None:
    if [value.name for value in before] != [value.name for value in after]:
        raise NotKeptError(f"changed the {kind}s: they were {_names(before)}, and are {_names(after)}")
    for one, other in zip(before, after, strict=True):
        kinds = _kind(one.type), _kind(other.type)
        if kinds[0] != kinds[1]:
            raise NotKeptError(f"changed the type of {kind} {one.name} from {kinds[0]} to {kinds[1]}")
        if kinds[0].startswith("tensor"):
            _check_shape(f"{kind} {one.name}", one.type.tensor_type, other.type.tensor_type, sizes_stay=sizes_stay)


def _check_shape(what: str, before: onnx.TypeProto.Tensor, after: onnx.TypeProto.Tensor, *, sizes_stay: bool) -> None:
    if not before.HasField("shape") or not (sizes_stay or after.HasField("shape")):
        return
    pairs = list(zip_longest(before.shape.dim, after.shape.dim))
    for axis, (one, other) in enumerate(pairs):
        if one is None or other is None:
            raise NotKeptError(f"changed the rank of {what} from {len(before.shape.dim)} to {len(after.shape.dim)}")
        if not one.HasField("dim_value") and other.HasField("dim_value"):
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
