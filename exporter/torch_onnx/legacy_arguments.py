"""Arguments of older versions of `torch.onnx` that scripts still pass: training modes, export types and others."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.graph.graph import Value
from onnx_parity.exporter.lowering.options import OperatorExportTypes
from onnx_parity.exporter.request.checks import check_switches
from onnx_parity.exporter.torch_inside import pytree

__all__ = [
    "TrainingMode",
    "check_example_outputs",
    "export_type_of",
    "refuse_uninlined",
    "set_training",
    "trains",
]


class TrainingMode(enum.Enum):
    """The mode in which a module is exported."""

    EVAL = False
    #: Each submodule keeps its mode.
    PRESERVE = None
    TRAINING = True


def trains(training: object) -> bool | None:
    """Whether to export in training mode; None if each submodule keeps its mode. Accepts torch's `TrainingMode` too."""
    if isinstance(training, bool):
        return training
    name = getattr(training, "name", None)
    if not isinstance(name, str) or name not in TrainingMode.__members__:
        raise ArgumentError(f"training is {training!r}: give True, False, or an onnx_parity.TrainingMode")
    mode: bool | None = TrainingMode[name].value
    return mode


@contextmanager
def set_training(model: object, mode: object) -> Iterator[None]:
    """A context in which the module is in training mode (True) or evaluation mode (False); None changes nothing. On
    exit the mode of every submodule is restored."""
    training = None if mode is None else trains(mode)
    if not isinstance(model, torch.nn.Module) or training is None:
        yield
        return
    # A frozen script has no mode: that of evaluation is compiled into it.
    before = [(module, module.training) for module in model.modules() if hasattr(module, "training")]
    try:
        if any(mode is not training for _, mode in before):
            # The module of an ExportedProgram has a fixed mode, and raises NotImplementedError.
            with suppress(NotImplementedError):
                model.train(training)
        yield
    finally:
        for module, own in before:
            if module.training is not own:
                module.training = own


def export_type_of(
    operator_export_type: object, aten: bool = False, export_raw_ir: bool = False
) -> OperatorExportTypes:
    """The export type from its three arguments, two of which are older. Accepts torch's `OperatorExportTypes` too."""
    check_switches(aten=aten, export_raw_ir=export_raw_ir)
    if aten + export_raw_ir + (operator_export_type is not None) > 1:
        raise ArgumentError(
            "aten, export_raw_ir and operator_export_type are three forms of the same request: "
            "give operator_export_type alone"
        )
    if aten:
        return OperatorExportTypes.ONNX_ATEN
    if export_raw_ir:
        return OperatorExportTypes.RAW
    if operator_export_type is None:
        return OperatorExportTypes.ONNX
    asked = getattr(operator_export_type, "name", None)
    if not isinstance(asked, str) or asked not in OperatorExportTypes.__members__:
        raise ArgumentError(
            f"operator_export_type is {operator_export_type!r}: give one of onnx_parity.OperatorExportTypes: "
            f"{', '.join(OperatorExportTypes.__members__)}"
        )
    return OperatorExportTypes[asked]


def refuse_uninlined(autograd_inlining: bool) -> None:
    if not autograd_inlining:
        raise ArgumentError(
            "autograd_inlining=False requests autograd functions as Python operators, which no runtime can execute: "
            "give the function a `symbolic`, or leave the argument out to export its forward"
        )


def check_example_outputs(example_outputs: Any, outputs: Sequence[Value]) -> None:
    """Check that `example_outputs` has the number, dtypes and sizes of the program's outputs.

    Older versions of `torch.onnx` needed it for the dtypes and ranks of a script's outputs. Here they are known.
    """
    examples = [leaf for leaf in pytree.tree_leaves(example_outputs) if isinstance(leaf, torch.Tensor)]
    if len(examples) != len(outputs):
        raise ArgumentError(
            f"example_outputs has {len(examples)} tensors, but the program returns {len(outputs)}: give the program's "
            "results, or leave it out"
        )
    for number, (example, output) in enumerate(zip(examples, outputs, strict=True)):
        if example.dtype is not output.dtype or example.ndim != len(output.shape):
            raise ArgumentError(
                f"example_outputs[{number}] is of {example.dtype} with {example.ndim} axes, but the program returns "
                f"{output.dtype} with {len(output.shape)}: give the program's results, or leave it out"
            )
        sizes = zip(example.shape, output.shape, strict=True)
        wrong = [axis for axis, (size, known) in enumerate(sizes) if isinstance(known, int) and size != known]
        if wrong:
            raise ArgumentError(
                f"example_outputs[{number}] has size {example.shape[wrong[0]]} along axis {wrong[0]}, but the "
                f"program's output has size {output.shape[wrong[0]]}: give the program's results, or leave it out"
            )
