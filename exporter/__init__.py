"""Exports PyTorch programs to ONNX, at every opset that runtimes still support.

import onnx_parity

program = onnx_parity.export(model, (x,), "model.onnx", opset_version=13, dynamic_axes={"x": {0: "batch"}})
y = program(x)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnx_parity.exporter.torch_inside.garbage import importing
from onnx_parity.exporter.torch_inside.slow_imports import import_libraries

with importing():
    import_libraries()

    from onnx_parity.exporter import errors, ops
    from onnx_parity.exporter.captured_program import Capture
    from onnx_parity.exporter.capturing import DroppedWriteWarning, capture_program
    from onnx_parity.exporter.errors import (
        ArgumentError,
        AssumptionError,
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
    from onnx_parity.exporter import operators, symbolic_helper, testing, verification
    from onnx_parity.exporter.input_observer import InputObserver

#: Modules that an export does not need. They are imported when they are first used.
_WHEN_USED = ("input_observer", "operators", "symbolic_helper", "testing", "verification")

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


if not TYPE_CHECKING:
    # A type checker would take every name for one of the package.
    def __getattr__(name: str) -> Any:
        if name in _WHEN_USED:
            return import_module(f"{__name__}.{name}")
        if name == "InputObserver":
            return import_module(f"{__name__}.input_observer").InputObserver
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
