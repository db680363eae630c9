"""How a captured program is written down: in whose operators, with which opset versions, with what besides."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch._ops import OpOverload

from onnx_parity.exporter.lowering.registry import Lowering

__all__ = ["Emission", "OperatorExportTypes"]


class OperatorExportTypes(enum.Enum):
    """In whose operators a program is written."""

    #: ONNX's. An operator that has no such form is refused.
    ONNX = "ONNX"
    #: Every operator as a node of the domain `org.pytorch.aten`, which torch itself executes.
    ONNX_ATEN = "ONNX_ATEN"
    #: ONNX's, and `org.pytorch.aten` for operators that ONNX has no form for.
    ONNX_ATEN_FALLBACK = "ONNX_ATEN_FALLBACK"
    #: ONNX's, and where there is no form the operator under its own name, in its own namespace: `my_ops::foo`.
    ONNX_FALLTHROUGH = "ONNX_FALLTHROUGH"
    #: Every operator as it was recorded: `aten::add`. To be looked at, not to be run.
    RAW = "RAW"


@dataclass(frozen=True, slots=True)
class Emission:
    """What may be chosen about a lowering, besides the opset and names."""

    style: OperatorExportTypes = OperatorExportTypes.ONNX
    #: Of domains other than ONNX's: the version to import.
    opset_versions: Mapping[str, int] = field(default_factory=dict)
    #: Lowerings for this program alone, before those of the registry.
    table: Mapping[OpOverload, Lowering] = field(default_factory=dict)
    #: Write each node's source line and module into its `doc_string`.
    doc_strings: bool = False
    #: Weights are given when the model runs: nothing may be made of their values now.
    weights_vary: bool = False
    #: Modules become functions: sizes that one has computed are not for others to use.
    modules_apart: bool = False
