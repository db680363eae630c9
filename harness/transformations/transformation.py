"""A transformation of a model, how it is applied, and the two ways in which one can fail to give a model.

It may change the nodes, the weights, the names of all values but inputs and outputs, the names of symbolic axes, and
the order in which nodes are written. What it must keep is checked by `kept.py`, and its results are compared like those
of any model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import onnx

from onnx_parity.exporter.arrays import Fed
from onnx_parity.exporter.verification.oracle import Expected, Verdict, judge
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.subjects.delivered import Delivered, proto_of
from onnx_parity.harness.transformations.kept import NotKeptError, check_kept, check_sizes
from onnx_parity.harness.transformations.signal import judge_by_signal

#: Inputs with which the model will be run, by which a quantiser measures ranges.
Samples = Sequence[Mapping[str, Fed]]
#: From a model and samples of its inputs to another model.
Apply = Callable[[onnx.ModelProto, Samples], object]


class DeclinedError(Exception):
    """The transformation says that it does not support this model."""


class TransformationError(Exception):
    """A transformation failed, or did not keep what it must. The message begins with its name."""


@dataclass(frozen=True)
class Transformation:
    """One transformation, as the axis of transformations names it."""

    name: str
    apply: Apply
    #: The module that it needs, and the distributions whose versions are recorded.
    module: str
    packages: tuple[str, ...]
    #: Where its errors are reported.
    tracker: str = ""
    #: The opset of the model that it returns; None if it keeps that of the model.
    opset: int | None = None
    #: For one that computes in fewer bits: the least ratio of signal to noise in dB that its results must have, over
    #: each output. The results of any other are judged as those of the exported model are.
    floor: float | None = None
    #: Whether an error says that it does not support the model.
    is_refusal: Callable[[Exception], bool] = lambda error: isinstance(error, NotImplementedError)

    def missing(self) -> str:
        """Why it cannot be used here; empty if it can."""
        if find_spec(self.module.partition(".")[0]) is None:
            return f"{self.name} needs {self.packages[0]}, which is not installed: pip install {self.packages[0]}"
        return ""


def applied(transformation: Transformation, delivered: Delivered, samples: Samples, folder: Path | None) -> Delivered:
    """The transformed model: bytes or, if a folder is given, a file in it with its weights beside it."""
    name = transformation.name
    try:
        made = transformation.apply(proto_of(delivered.model), samples)
    except Exception as error:
        if isinstance(error, DeclinedError) or transformation.is_refusal(error):
            raise DeclinedError(
                f"{name} does not support it: {one_line(str(error)) or type(error).__name__}"
            ) from error
        raise TransformationError(f"{name} raised {error_line(error)}") from error
    if not isinstance(made, onnx.ModelProto):
        raise TransformationError(f"{name} returned {type(made).__name__} instead of a model (onnx.ModelProto)")
    result = Delivered(_stored(made, folder))
    try:
        check_kept(delivered, result, transformation.opset)
    except NotKeptError as error:
        raise TransformationError(f"{name} {error}") from error
    except onnx.checker.ValidationError as error:
        raise TransformationError(f"{name} made a model that is no valid ONNX: {one_line(str(error))}") from error
    except onnx.shape_inference.InferenceError as error:
        raise TransformationError(f"{name} made a model with wrong types or shapes: {one_line(str(error))}") from error
    return result


def check_results(
    transformation: Transformation, before: Delivered, after: Delivered, shapes: Sequence[tuple[int, ...]]
) -> None:
    """Check that results of these shapes are what the transformed model declares."""
    try:
        check_sizes(before, after, shapes)
    except NotKeptError as error:
        raise TransformationError(f"{transformation.name} {error}") from error


def _stored(model: onnx.ModelProto, folder: Path | None) -> bytes | Path:
    if folder is None:
        return bytes(model.SerializeToString())
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.data", size_threshold=1024)
    return path


def judge_outputs(
    outputs: Sequence[object], expected: Sequence[Expected], transformations: Sequence[Transformation]
) -> Verdict:
    """Compare the outputs of a model with torch's, as exactly as what was done to the model allows."""
    floor = floor_of(transformations)
    return judge(outputs, expected) if floor is None else judge_by_signal(outputs, expected, floor)


def floor_of(transformations: Sequence[Transformation]) -> float | None:
    """The least floor of a chain; None if all of it is exact."""
    return min((each.floor for each in transformations if each.floor is not None), default=None)
