"""The options of a lowering besides the opset and the names: `operator_export_type`, versions, lowerings."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from torch._ops import OpOverload

from onnx_parity.exporter.lowering.registry import Lowering

__all__ = ["LoweringOptions", "OperatorExportTypes"]


class OperatorExportTypes(enum.Enum):
    """Whether operators are written as ONNX's or as torch's."""

    #: As ONNX's. An operator that has no lowering is refused.
    ONNX = "ONNX"
    #: Every operator as a node of the domain `org.pytorch.aten`, which torch itself executes.
    ONNX_ATEN = "ONNX_ATEN"
    #: As ONNX's, and in `org.pytorch.aten` where there is no lowering or it refuses.
    ONNX_ATEN_FALLBACK = "ONNX_ATEN_FALLBACK"
    #: As ONNX's, and where there is no lowering or it refuses, under its own name in its own domain: `my_ops::foo`.
    ONNX_FALLTHROUGH = "ONNX_FALLTHROUGH"
    #: Every operator as it was recorded: `aten::add`. Such a model is for inspection and cannot be run.
    RAW = "RAW"


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    style: OperatorExportTypes
    #: The versions to import of domains other than ONNX's.
    opset_versions: Mapping[str, int]
    #: Lowerings for this program alone, which come before those of the registry.
    table: Mapping[OpOverload, Lowering]
    #: Whether the `doc_string` of each node has the operator, the source line and the module.
    doc_strings: bool
    #: Weights are given when the model runs, so lowerings must not read their values.
    weights_are_inputs: bool
    #: Modules become functions, so a node must not use sizes that were computed for another node.
    modules_become_functions: bool
