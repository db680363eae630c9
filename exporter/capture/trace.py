"""Capture by tracing: one or more attempts to record a program over fake tensors, without computing anything.

A program without dynamic axes is first traced without a `ShapeEnv`. If its sizes turn out to depend on data, it is
traced again with a `ShapeEnv`. If it fails with a symbol that was read from a tensor, it is traced again with the
numbers of the example inputs, and a warning is issued.

Four layers see each operator, from the outside in: the composite kernels of `replace/dispatch.py`, functionalization,
the recorder (`record/recorder.py`), and the result cache of the fake tensors (`fakes/result_cache.py`).

`torch.func.functionalize` turns views and writes in place into operators without side effects. Buffers are passed in as
arguments, so that a write to one becomes visible: its new value arrives as a final `copy_`, which is not part of the
model and is warned about. A write to any other tensor that the program did not create is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.capture_errors import failed_while_recorded
from onnx_parity.exporter.capture.patches.recording import capturing_surroundings
from onnx_parity.exporter.capture.record.python_state import PythonState
from onnx_parity.exporter.capture.record.recorder import NeedsSymbols, OwnTensorWritten
from onnx_parity.exporter.capture.record.values_read import LoopValueError
from onnx_parity.exporter.capture.recording import (
    Attempt,
    AutomaticAxesFixed,
    SymbolicNumberFailed,
    ToRecord,
    Traced,
    record,
)
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.request.dynamic_axes import Axes

__all__ = ["Traced", "trace"]


def trace(
    program: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    input_names: Sequence[str],
    axes: Axes,
    decomposition_of: Callable[[OpOverload], Callable[..., Any] | None],
    weight_names: Sequence[str] = (),
    strict: bool = False,
    return_written: bool = False,
    allow_ignored_inputs: bool = False,
) -> Traced:
    """Record `program(*args, **kwargs)`. The inputs are the tensors and the marked inputs among the flattened
    arguments, and are named in this order.

    Weights have the module's names, or those in `weight_names` in the order of `weights_of(program)`. With
    `return_written`, the new values of buffers, attributes and inputs become outputs after the program's own. Axes with
    `Dim.AUTO` that the program fixes become static; any other axis that it fixes is an error. An input that only
    decided what was recorded is an error too, unless `allow_ignored_inputs`.
    """
    wanted = ToRecord(
        program, args, kwargs, input_names, decomposition_of, weight_names, strict, return_written, allow_ignored_inputs
    )
    # Programs without dynamic axes are first traced without a ShapeEnv, because its import takes time.
    attempt = Attempt(axes, symbolic=bool(axes.inputs))
    failure: BaseException | None = None
    leaves, _ = pytree.tree_flatten((args, kwargs))
    arguments = PythonState(leaf for leaf in leaves if not isinstance(leaf, torch.Tensor))
    while True:
        try:
            return _recorded(wanted, attempt, arguments)
        except SymbolicNumberFailed as error:
            # The program needs the value of a number that is a symbol. The example's number becomes a constant, with a
            # warning.
            failure = error.__cause__
            attempt = replace(attempt, symbolic=bool(attempt.axes.inputs), freezes=True)
        except LoopValueError:
            if not isinstance(failure, Exception):
                raise
            # A number that changes in each iteration cannot become a constant: report why its symbol failed.
            raise failed_while_recorded(failure) from failure
        except OwnTensorWritten as error:
            if attempt.lifts:
                raise CaptureError(*error.args) from None
            attempt = replace(attempt, lifts=True)
        except (DynamicOutputShapeException, DataDependentOutputException, NeedsSymbols) as error:
            if attempt.symbolic:
                raise failed_while_recorded(error) from error
            # The sizes of this program depend on values.
            attempt = replace(attempt, symbolic=True)
        except AutomaticAxesFixed as found:
            attempt = replace(attempt, axes=attempt.axes.without(found.names))


def _recorded(wanted: ToRecord, attempt: Attempt, arguments: PythonState) -> Traced:
    """Record the program in one attempt, and leave its arguments as they were."""
    try:
        with capturing_surroundings():
            return record(wanted, attempt)
    finally:
        arguments.restore()
