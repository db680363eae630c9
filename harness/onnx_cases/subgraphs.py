"""The subgraphs of control flow: text in ONNX's own syntax, in which `{T}` is the type of a variable."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx
from onnx import parser

from onnx_parity.harness.onnx_cases.types import Types, code_of, element_of

__all__ = ["Subgraph"]


#: `{V}[2]` is the type of V with the shape of its tensors, `{V.item}` that of its tensors, `{V.code}` their elements.
_PLACE = re.compile(r"\{([A-Z]\w*)(?:\.(item|code))?\}(\[[^\]]*\])?")


@dataclass(frozen=True, slots=True)
class Subgraph:
    """`body (int64 i, bool c, {V}[2] x) => ...`"""

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
