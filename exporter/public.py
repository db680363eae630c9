"""The public names, with all that an export needs: they are imported when the first of them is used.

What imports only a file of this package, as declarations of the harness do, does not wait for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_parity.exporter import errors, ops
from onnx_parity.exporter.captured_program import Capture
from onnx_parity.exporter.capturing import capture_program
from onnx_parity.exporter.errors import (
    ArgumentError,
    AssumptionError,
    CaptureError,
    DroppedWriteWarning,
    DynamicAxisError,
    ExportError,
    FrozenValueError,
    LoweringError,
    OnnxExporterError,
    OpsetError,
    UnsupportedOperatorsError,
    VerificationError,
    WriteError,
)
from onnx_parity.exporter.exporting import export
from onnx_parity.exporter.files.external_data import ExternalData
from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.lowering.custom.local_functions import local_function
from onnx_parity.exporter.lowering.custom.symbolic import register_custom_op_symbolic, unregister_custom_op_symbolic
from onnx_parity.exporter.lowering.options import OperatorExportTypes
from onnx_parity.exporter.patches.exporting_flag import is_in_onnx_export
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.recording.values_read import TracerWarning
from onnx_parity.exporter.registry.lowerings import lowered_operators, lowering
from onnx_parity.exporter.request.marked_inputs import AnyNumber, ListOf, OrNone
from onnx_parity.exporter.torch_onnx.legacy_arguments import TrainingMode, set_training

if TYPE_CHECKING:
    # Modules that an export does not need. They are imported when they are first used.
    from onnx_parity.exporter import operators, symbolic_helper, testing, verification
    from onnx_parity.exporter.input_observer import InputObserver

__all__ = [
    "AnyNumber",
    "ArgumentError",
    "Assumption",
    "AssumptionError",
    "Capture",
    "CaptureError",
    "DroppedWriteWarning",
    "DynamicAxisError",
    "ExportError",
    "ExternalData",
    "FrozenValueError",
    "InputObserver",
    "ListOf",
    "LoweringError",
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "OpsetError",
    "OrNone",
    "TracerWarning",
    "TrainingMode",
    "UnsupportedOperatorsError",
    "VerificationError",
    "WriteError",
    "capture_program",
    "errors",
    "export",
    "is_in_onnx_export",
    "local_function",
    "lowered_operators",
    "lowering",
    "operators",
    "ops",
    "register_custom_op_symbolic",
    "set_training",
    "symbolic_helper",
    "testing",
    "unregister_custom_op_symbolic",
    "verification",
]
