"""PyTorch programs to ONNX, at every opset that runtimes still run.

import exporter

program = exporter.export(model, (x,), "model.onnx", opset_version=13, dynamic_axes={"x": {0: "batch"}})
y = program(x)
"""

from exporter.api import Capture, DroppedWriteWarning, capture_program, export
from exporter.capture.reading import TracerWarning
from exporter.errors import (
    ArgumentError,
    CaptureError,
    DynamicAxisError,
    ExportError,
    FrozenValueError,
    LoweringError,
    OpsetError,
    UnsupportedOperatorsError,
    WriteError,
)
from exporter.lowering.registry import lowered_operators, lowering
from exporter.program import ONNXProgram

__all__ = [
    "ArgumentError",
    "Capture",
    "CaptureError",
    "DroppedWriteWarning",
    "DynamicAxisError",
    "ExportError",
    "FrozenValueError",
    "LoweringError",
    "ONNXProgram",
    "OpsetError",
    "TracerWarning",
    "UnsupportedOperatorsError",
    "WriteError",
    "capture_program",
    "export",
    "lowered_operators",
    "lowering",
]
