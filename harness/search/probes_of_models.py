"""Probes of what is done to models: transformations, and onnx's shape inference.

A transformation is one of `harness/transformations/`, or any `module:function` from a model to a model.
"""

from __future__ import annotations

import onnx
import onnx.parser
import onnx.printer
import onnx.shape_inference

from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.axes import ONNXRUNTIME, Device
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import Failure, Fault, Point, RefusedHere, is_small, valid_model
from onnx_parity.harness.subjects.runtime_interface import NoKernelError
from onnx_parity.harness.subjects.runtimes import RUNTIMES
from onnx_parity.harness.transformations.named import TRANSFORMATIONS
from onnx_parity.harness.transformations.transformation import (
    DeclinedError,
    Transformation,
    TransformationError,
    applied,
)

#: To which opset a model is converted, by its own; models of other opsets are converted to 18.
_CONVERTED_TO = {18: 21, 21: 18, 9: 13, 13: 16, 16: 19}


def shape_inference(subject: ProbedProgram, point: Point) -> Failure | None:
    """onnx infers no other shape or dtype of an output than it has."""
    culprit = "onnx.shape_inference"
    model = onnx.ModelProto()
    model.CopyFrom(valid_model(subject, point).proto)
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001
        return Failure(culprit, Fault.ERROR, error_line(error), subject.example)
    assert subject.example is not None
    for output, value in zip(inferred.graph.output, subject.example.values, strict=True):
        tensor = output.type.tensor_type
        if not tensor.HasField("shape"):
            continue
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        shape = value.shape
        if len(sizes) != len(shape) or any(a not in (None, b) for a, b in zip(sizes, shape, strict=True)):
            return Failure(culprit, Fault.WRONG, f"inferred {sizes}, but the shape is {list(shape)}", subject.example)
    return None


def transformed(subject: ProbedProgram, point: Point) -> Failure | None:
    """A transformed model has the inputs, outputs and opset that it must have, and computes the same."""
    return _transformed(subject, point, TRANSFORMATIONS[point.probe])


def converted(subject: ProbedProgram, point: Point) -> Failure | None:
    """A model that is converted to another opset computes the same. The probe's name is that of the converter."""
    target = _CONVERTED_TO.get(point.opset, 18)
    return _transformed(subject, point, TRANSFORMATIONS[f"{point.probe}:{target}"])


def text(subject: ProbedProgram, point: Point) -> Failure | None:
    """A model that onnx has printed as text and read again computes the same."""
    return _transformed(subject, point, _TEXT)


def _as_text(model: onnx.ModelProto, samples: object) -> onnx.ModelProto:
    read: onnx.ModelProto = onnx.parser.parse_model(onnx.printer.to_text(model))
    return read


_TEXT = Transformation("onnx.parser", _as_text, "onnx", ("onnx",))


def _transformed(subject: ProbedProgram, point: Point, transformation: Transformation) -> Failure | None:
    """What is wrong with a model that onnxruntime runs rightly, once it is transformed."""
    if missing := transformation.missing():
        raise RefusedHere(missing)
    name, model, example = transformation.name, valid_model(subject, point), subject.example
    assert example is not None
    trials = (example, *subject.others)
    try:
        result = applied(transformation, model, [trial.feeds for trial in trials], None)
    except DeclinedError as error:
        raise RefusedHere(str(error)) from error
    except TransformationError as error:
        fault = Fault.ERROR if str(error).startswith(f"{name} raised ") else Fault.INVALID
        return Failure(name, fault, str(error), example)
    trial = example
    try:
        session = RUNTIMES[ONNXRUNTIME].load(result.model, Device.CPU)
        for trial in trials:
            verdict = judge(tuple(session.run(trial.feeds)), trial.expected)
            if not verdict.passed and not is_small(verdict, trial):
                return Failure(name, Fault.WRONG, verdict.detail, trial)
    except NoKernelError as error:
        raise RefusedHere(str(error)) from error
    except Exception as error:  # noqa: BLE001  onnxruntime may raise anything for a model that is wrong.
        return Failure(name, Fault.INVALID, error_line(error), trial)
    return None
