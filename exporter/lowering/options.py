"""The options of a lowering besides the opset and the names: the export type, versions of domains, and lowerings."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.recording.known_values import KnownValues
from onnx_parity.exporter.registry.lowerings import Lowering
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["LoweringOptions", "OperatorExportTypes"]


class OperatorExportTypes(enum.Enum):
    """Whether operators are written as operators of ONNX or of torch."""

    #: As operators of ONNX. An operator without a lowering is refused.
    ONNX = "ONNX"
    #: Every operator as a node of the domain `org.pytorch.aten`, which torch itself executes.
    ONNX_ATEN = "ONNX_ATEN"
    #: As operators of ONNX; in `org.pytorch.aten` if there is no lowering, or if it refuses the call.
    ONNX_ATEN_FALLBACK = "ONNX_ATEN_FALLBACK"
    #: As operators of ONNX. If there is no lowering, or if it refuses the call, under the operator's own name in its
    #: own domain: `my_ops::foo`.
    ONNX_FALLTHROUGH = "ONNX_FALLTHROUGH"
    #: Every operator as it was recorded: `aten::add`. Such a model is for inspection and cannot be run.
    RAW = "RAW"


class LoweringOptions(msgspec.Struct, frozen=True):
    style: OperatorExportTypes
    #: The versions to import of domains other than ONNX's.
    opset_versions: Mapping[str, int]
    #: Lowerings for this program only, which take precedence over those of the registry.
    table: Mapping[OpOverload, Lowering]
    #: Whether weights are passed when the model runs, so that lowerings must not read their values.
    weights_are_inputs: bool
    #: Whether modules become functions, so that a node must not use sizes that were computed for another node.
    modules_become_functions: bool
    #: The values that are computed at the export, as constants; None if the graph of the program is kept.
    known: KnownValues | None
    #: Whether quantized weights may be read, and stored anew as the operators of ONNX take them.
    reads_weights: bool = False
    #: The conditions of which one more output tells whether they hold; None if there is no such output.
    conditions: Sequence[Assumption] | None = None
