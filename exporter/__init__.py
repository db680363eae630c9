"""PyTorch programs to ONNX, at every opset that runtimes still run.

import exporter

program = exporter.export(model, (x,), "model.onnx", opset_version=13, dynamic_axes={"x": {0: "batch"}})
y = program(x)
"""

from exporter.garbage import importing
from exporter.stand_ins import standing_in

with importing():
    # The one module of onnx_ir uses sympy as soon as it is imported, the other is for operators' signatures.
    with standing_in("sympy", "onnx_ir._symbolic_shapes", "onnx_ir.schemas"):
        import onnx_ir  # noqa: F401

    from exporter import errors, operators, ops, symbolic_helper, testing, verification
    from exporter.api import export
    from exporter.capture.activity import is_in_onnx_export
    from exporter.capture.reading import TracerWarning
    from exporter.captured import Capture, DroppedWriteWarning, capture_program
    from exporter.containers import ListOf, OrNone
    from exporter.errors import (
        ArgumentError,
        CaptureError,
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
    from exporter.legacy import TrainingMode, set_training
    from exporter.lowering.emission import OperatorExportTypes
    from exporter.lowering.local_functions import local_function
    from exporter.lowering.registry import lowered_operators, lowering
    from exporter.lowering.symbolic import register_custom_op_symbolic, unregister_custom_op_symbolic
    from exporter.observing import InputObserver
    from exporter.placement import ExternalData
    from exporter.program import ONNXProgram

__all__ = [
    "ArgumentError",
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
