"""The subgraphs of control flow: text in ONNX's own syntax, in which `{T}` stands for the type of a type variable."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx
from onnx import parser

from onnx_parity.harness.onnx_cases.types import Types

__all__ = ["Subgraph"]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """`body (int64 i, bool c, {V}[2,3] x) => ...`"""

    text: str

    def make(self, types: Types) -> onnx.GraphProto:
        """The graph for these types. `{V}[2,3]` is the type with the shape of its tensors."""
        return parser.parse_graph(re.sub(r"\{(\w+)\}(\[[^\]]*\])?", lambda match: _written(types, match), self.text))


def _written(types: Types, match: re.Match[str]) -> str:
    return re.sub(r"tensor\((\w+)\)", lambda inner: inner[1] + (match[2] or ""), types[match[1]])
