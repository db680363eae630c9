"""Attributes that follow the types of a case: a type, a tensor of that type, or the subgraph of control flow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

from onnx_parity.harness.onnx_cases.types import Types, code_of, dtype_of, element_of

__all__ = ["Subgraph", "TensorOf", "TypeOf"]


#: `{V}[2]` is the type of V with the shape of its tensors, `{V.item}` that of its tensors, `{V.code}` their elements.
_PLACE = re.compile(r"\{([A-Z]\w*)(?:\.(item|code))?\}(\[[^\]]*\])?")


@dataclass(frozen=True, slots=True)
class TypeOf:
    """The value of an attribute that names the elements of a type variable, as `to` of Cast does those of T2."""

    variable: str

    def make(self, types: Types) -> int:
        return code_of(types[self.variable])


@dataclass(frozen=True, slots=True)
class TensorOf:
    """A tensor of one dimension whose elements are of a type variable; numbers are written as strings where it is."""

    variable: str
    elements: tuple[Any, ...]

    def make(self, types: Types) -> onnx.TensorProto:
        if element_of(types[self.variable]) == "string":
            return numpy_helper.from_array(np.array([str(each) for each in self.elements], object))
        return numpy_helper.from_array(np.array(self.elements).astype(dtype_of(types[self.variable])))


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Text in ONNX's own syntax, in which `{T}` is the type of a variable: `body (int64 i, {V}[2] x) => ...`"""

    text: str

    def make(self, types: Types) -> onnx.GraphProto:
        return parser.parse_graph(
            _PLACE.sub(lambda match: _written(types[match[1]], match[2], match[3] or ""), self.text)
        )


def _written(type_: str, what: str | None, shape: str) -> str:
    if what == "code":
        return str(code_of(type_))
    if what == "item":
        return element_of(type_) + shape
    return re.sub(r"tensor\((\w+)\)", lambda inner: inner[1] + shape, type_)
