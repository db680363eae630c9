"""The types of a case: one for each type variable of the operator's schema, such as T and Tind.

Types are named in ONNX's words: `tensor(float)`, `seq(tensor(int8))`, `optional(tensor(string))`, `map(int64, float)`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, helper

from onnx_parity.harness.axes import OPSETS

__all__ = ["ELEMENTS", "Schema", "Types", "alike", "code_of", "dtype_of", "element_of", "key_of", "make_type",
           "schema_at", "short", "spell_type", "variables_of", "versions_of"]  # fmt: skip

Schema: TypeAlias = "onnx.defs.OpSchema"
#: Type variable to type.
Types: TypeAlias = Mapping[str, str]

#: The elements of tensors; the first that a schema allows is the usual one.
ELEMENTS = (
    "float", "int64", "bool", "string", "double", "float16", "bfloat16", "int32", "uint8", "int8", "int16", "uint16",
    "uint32", "uint64", "complex64", "complex128", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "float8e8m0", "float4e2m1", "float6e2m3", "float6e3m2", "uint4", "int4", "uint2", "int2",
)  # fmt: skip
_FORMS = ("tensor({})", "seq(tensor({}))", "optional(tensor({}))", "optional(seq(tensor({})))", "map(int64, {})",
          "map(string, {})", "seq(map(int64, {}))", "seq(map(string, {}))")  # fmt: skip
_ORDER = {form.format(element): number for number, (form, element) in
          enumerate((form, element) for form in _FORMS for element in ELEMENTS)}  # fmt: skip
#: For each domain, what it has instead of opsets of its own: the versions of ai.onnx.ml are few.
ML, ML_OPSETS = "ai.onnx.ml", (1, 2, 3, 4, 5)


@cache
def element_of(type_: str) -> str:
    """`float` of `seq(tensor(float))`, and of `map(int64, float)`."""
    return re.split(r"[(, ]", type_)[-1].rstrip(")")


def key_of(type_: str) -> str:
    """`int64` of `map(int64, float)`."""
    return type_.partition("map(")[2].partition(",")[0]


def dtype_of(type_: str) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(code_of(type_)))


def code_of(type_: str) -> int:
    """What an attribute such as `to` names the type of the elements by."""
    return int(TensorProto.DataType.Value(element_of(type_).upper()))


def is_sequence(type_: str) -> bool:
    return "seq(" in type_


def short(type_: str) -> str:
    """`seq.float` for `seq(tensor(float))`: what ids have."""
    return type_.replace("tensor(", "").replace(")", "").replace("(", ".").replace(", ", ".")


def make_type(type_: str, shape: Sequence[int | None] | None) -> TypeProto:
    """The protobuf. The shape is that of a tensor; None, if it is not the same for all."""
    if type_.startswith("optional("):
        return helper.make_optional_type_proto(make_type(type_[9:-1], shape))
    if type_.startswith("seq("):
        return helper.make_sequence_type_proto(make_type(type_[4:-1], shape))
    if type_.startswith("map("):
        key = code_of(f"tensor({key_of(type_)})")
        return helper.make_map_type_proto(key, helper.make_tensor_type_proto(code_of(type_), shape))
    return helper.make_tensor_type_proto(code_of(type_), shape)


def spell_type(of: TypeProto) -> str:
    """A type in the words of ONNX's schemas: `seq(tensor(float))`."""
    match of.WhichOneof("value"):
        case "sequence_type":
            return f"seq({spell_type(of.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({spell_type(of.optional_type.elem_type)})"
        case "map_type":
            key = TensorProto.DataType.Name(of.map_type.key_type).lower()
            return f"map({key}, {element_of(spell_type(of.map_type.value_type))})"
        case "tensor_type":
            return f"tensor({TensorProto.DataType.Name(of.tensor_type.elem_type).lower()})"
        case other:
            raise ValueError(f"it has a value of the kind {other}")


def variables_of(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The type variables, those of inputs first, and the types of each in a fixed order."""
    found = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    named = [each.type_str for each in (*schema.inputs, *schema.outputs)]
    return {name: tuple(sorted((each for each in found[name] if each in _ORDER), key=_ORDER.__getitem__))
            for name in dict.fromkeys(named) if name in found}  # fmt: skip


@cache
def alike(type_: str, allowed: tuple[str, ...]) -> str | None:
    """What another type variable has beside this type, if it may: the same, an optional of it, or its tensors."""
    same = [each for each in allowed if element_of(each) == element_of(type_)]
    nearest = (type_, f"optional({type_})", type_.removeprefix("optional(").removesuffix(")"))
    return next((each for each in nearest if each in same), next(iter(same), None))


def schema_at(operator: str, opset: int, domain: str = "") -> Schema:
    return onnx.defs.get_schema(operator, opset, domain)


def versions_of(operator: str, domain: str = "") -> dict[int, int]:
    """The versions of an operator that opsets since 7 have, and the first of these opsets for each."""
    versions = sorted(_versions()[domain, operator])
    found: dict[int, int] = {}
    for opset in ML_OPSETS if domain else OPSETS:
        if versions and opset >= versions[0]:
            schema = schema_at(operator, opset, domain)
            if not schema.deprecated:
                found.setdefault(schema.since_version, opset)
    return found


def operators_of(domain: str) -> Iterator[str]:
    """The operators of a domain that some opset since 7 has, in the order of their names."""
    yield from sorted(name for known, name in _versions() if known == domain and versions_of(name, domain))


@cache
def _versions() -> Mapping[tuple[str, str], set[int]]:
    found: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        found[schema.domain, schema.name].add(schema.since_version)
    return found
