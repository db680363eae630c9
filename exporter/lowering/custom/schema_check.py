"""Checks calls of ONNX operators in users' lowerings against the schemas, so that the error names the user's line.

The package's own lowerings are not checked, to save time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx.defs
import onnx_ir as ir

__all__ = ["check_call"]

_Option = onnx.defs.OpSchema.FormalParameterOption
#: The suffix of a keyword argument for an attribute of each type.
_SUFFIXES = {
    ir.AttributeType.FLOAT: "_f",
    ir.AttributeType.FLOATS: "_f",
    ir.AttributeType.INT: "_i",
    ir.AttributeType.INTS: "_i",
    ir.AttributeType.STRING: "_s",
    ir.AttributeType.STRINGS: "_s",
    ir.AttributeType.TENSOR: "_t",
    ir.AttributeType.GRAPH: "_g",
}


def check_call(
    op: str,
    domain: str,
    opset: int,
    is_given: Sequence[bool],
    attributes: Mapping[str, ir.AttributeType],
    outputs: int,
) -> None:
    """Raise `TypeError` if inputs, attributes or outputs do not fit the schema. Unknown operators are not checked."""
    try:
        schema = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        if domain == "ai.onnx.ml":
            raise TypeError(
                f"ONNX has no operator {op} in version {opset} of its domain {domain}: check its name"
            ) from None
        return
    at = f"at opset {opset}"
    count = max((number + 1 for number, given in enumerate(is_given) if given), default=0)
    if not schema.min_input <= count <= schema.max_input:
        wanted = _counted(schema.min_input, schema.max_input, "input")
        names = ", ".join(parameter.name for parameter in schema.inputs)
        raise TypeError(f"{op} takes {wanted} {at}{f' ({names})' if names else ''}, but got {count}")
    for parameter, given in zip(schema.inputs, is_given, strict=False):
        if not given and parameter.option is _Option.Single:
            raise TypeError(f"{op} got None for its input {parameter.name}, which is required {at}: give a value")
    for name, kind in attributes.items():
        known = schema.attributes.get(name)
        if known is None:
            others = ", ".join(sorted(schema.attributes)) or "none"
            raise TypeError(f"{op} has no attribute {name!r} {at}: it has {others}")
        wanted_kind = ir.AttributeType(known.type.value)  # type: ignore[attr-defined]  # as enums of nanobind have
        if kind is not wanted_kind:
            raise TypeError(
                f"{op} takes {wanted_kind.name} for its attribute {name!r} {at}, but got {kind.name}: write "
                f"{name}{_SUFFIXES.get(wanted_kind, '')}=..., with a list for several"
            )
    for name, known in schema.attributes.items():
        if known.required and name not in attributes:
            raise TypeError(f"{op} requires its attribute {name!r} {at}: give it as a keyword argument")
    if not schema.min_output <= outputs <= schema.max_output:
        wanted = _counted(schema.min_output, schema.max_output, "output")
        raise TypeError(f"{op} has {wanted} {at}, but {outputs} were requested")


def _counted(least: int, most: int, what: str) -> str:
    if least == most:
        return f"{least} {what}{'' if least == 1 else 's'}"
    return f"{least} {what}s or more" if most > least + 100 else f"{least} to {most} {what}s"
