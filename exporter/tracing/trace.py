"""Capture by tracing: one or more attempts to record a program over fake tensors, without computing anything.

A program without dynamic axes is first traced without a `ShapeEnv`. If its sizes turn out to depend on data, it is
traced again with a `ShapeEnv`; if it asks for gradients, so that autograd sees its operators. If it fails with a symbol
that was read from a tensor, it is traced again with the numbers of the example inputs, and a warning is issued.

Four layers see each operator, from the outside in: the composite kernels of `replace/dispatch.py`, functionalization,
the recorder (`record/recorder.py`), and the result cache of the fake tensors (`fakes/result_cache.py`).

`functional.py` turns views and writes in place into operators without side effects. Buffers are passed in as
arguments, so that a write to one becomes visible: its new value arrives as a final `copy_`, which is not part of the
model and is warned about. A write to any other tensor that the program did not create is refused.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from onnx_parity.exporter.containers import leaves_of
from onnx_parity.exporter.dispatch.gradients import NeedsGradients
from onnx_parity.exporter.errors import CaptureError, FrozenValueError, OnnxExporterError, ProgramFailedError
from onnx_parity.exporter.patches.recording import capturing_surroundings
from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.program_state.survivors import KeptTensorError, Survivors, clear_locals
from onnx_parity.exporter.recording.given_up import (
    FrozenSizes,
    NeedsSelects,
    NeedsSymbols,
    NeedsViews,
    OwnTensorWritten,
    SizesOfTrial,
)
from onnx_parity.exporter.recording.open_ranks import RankNeeded
from onnx_parity.exporter.recording.values_read import LoopValueError
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.tracing.capture_errors import (
    failed_while_recorded,
    fixed_axes,
    warn_of_branches_on_sizes,
    warn_of_static_axes,
)
from onnx_parity.exporter.tracing.recording import (
    Attempt,
    AxesFixed,
    SymbolicNumberFailed,
    TooGeneral,
    ToRecord,
    Traced,
    record,
)

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression
    from onnx_parity.exporter.sizes.symbols import Assumption
    from onnx_parity.exporter.tracing.branches_on_sizes import Recording

__all__ = ["Traced", "trace"]

#: After these errors a program is recorded again.
_RETRIED = (
    TooGeneral,
    SymbolicNumberFailed,
    LoopValueError,
    OwnTensorWritten,
    DynamicOutputShapeException,
    DataDependentOutputException,
    NeedsGradients,
    NeedsSymbols,
    NeedsSelects,
    NeedsViews,
    RankNeeded,
    AxesFixed,
    FrozenValueError,
)
#: How a recording may end, other than with a graph.
_FAILURES = (OnnxExporterError, *_RETRIED)


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
    `Dim.AUTO` that the program fixes become static; so do those of `dynamic_axes` if the program runs with no other
    size, with a warning. Any other axis that it fixes is an error. An input that only decided what was recorded is an
    error too, unless `allow_ignored_inputs`.
    """
    wanted = ToRecord(
        program, args, kwargs, input_names, decomposition_of, weight_names, strict, return_written, allow_ignored_inputs
    )
    # Programs without dynamic axes are first traced without a ShapeEnv, because its import takes time.
    attempt = Attempt(axes, symbolic=bool(axes.inputs))
    failure: BaseException | None = None
    earlier: list[Survivors] = []
    #: Axes that become static because the program runs with no other size.
    static_axes: list[AxesFixed] = []
    leaves = leaves_of((args, kwargs))
    reached = PythonState([program, *leaves], follows_code=True)
    arguments = PythonState(leaf for leaf in leaves if not isinstance(leaf, torch.Tensor))
    while True:
        try:
            traced = _recorded(wanted, attempt, reached, arguments, earlier)
            break
        except SymbolicNumberFailed as error:
            failure = error.__cause__
            if not attempt.plain_numbers:
                attempt = replace(attempt, plain_numbers=True)
                continue
            # The program needs the value of a number that is a symbol. The example's number becomes a constant, with a
            # warning.
            attempt = replace(attempt, symbolic=bool(attempt.axes.inputs), freezes=True)
        except ProgramFailedError:
            if attempt.plain_numbers or not attempt.symbolic:
                raise
            # It may need plain numbers, as `table[len(x)]` does.
            attempt = replace(attempt, plain_numbers=True)
        except TooGeneral:
            attempt = replace(attempt, special_sizes_as_in_example=True)
        except RankNeeded as error:
            if attempt.squeezes_as_in_example or not attempt.symbolic:
                raise CaptureError(*error.args) from None
            attempt = replace(attempt, squeezes_as_in_example=True)
        except LoopValueError:
            if not isinstance(failure, Exception):
                raise
            # A number that changes in each iteration cannot become a constant: report why its symbol failed.
            raise failed_while_recorded(failure) from failure
        except FrozenValueError as error:
            if isinstance(error, FrozenSizes) and attempt.symbolic:
                coincidence = _coincidence(wanted, attempt, error, reached, arguments)
                if coincidence is None:
                    raise FrozenValueError(*error.args) from failure
                attempt = replace(attempt, coincidences=attempt.coincidences | {coincidence})
                continue
            if attempt.symbolic:
                # Where numbers are frozen, what failed with symbols is the cause.
                raise error from failure
            # With symbols, a flag that torch reads while it indexes, as in x[flag], stays a tensor.
            attempt = replace(attempt, symbolic=True)
        except NeedsGradients as error:
            if error.refusal is not None and error.weights <= attempt.by_weights:
                raise error.refusal from None
            attempt = replace(attempt, differentiates=True, by_weights=attempt.by_weights | error.weights)
        except NeedsSelects:
            attempt = replace(attempt, selects=True)
        except NeedsViews:
            attempt = replace(attempt, views_inputs=True)
        except OwnTensorWritten as error:
            if attempt.lifts:
                raise CaptureError(*error.args) from None
            attempt = replace(attempt, lifts=True)
        except (DynamicOutputShapeException, DataDependentOutputException, NeedsSymbols) as error:
            if attempt.symbolic:
                raise failed_while_recorded(error) from error
            # The sizes of this program depend on values.
            attempt = replace(attempt, symbolic=True)
        except AxesFixed as found:
            names = set(found.fixed) & attempt.axes.automatic
            if not names:
                _refuse_if_it_runs_otherwise(wanted, attempt, found, reached, arguments)
                static_axes.append(found)
                names = set(found.fixed)
            attempt = replace(attempt, axes=attempt.axes.without(names))
    failure = None  # Its frames refer to tensors.
    removed = [each.remove() for each in earlier]
    if any(removed):
        # The program has used what it had stored in an earlier attempt.
        traced = _recorded(wanted, attempt, reached, arguments, [])
    branches = _that_matter(traced, functools.partial(_recorded_again, wanted, attempt, reached, arguments))
    warn_of_branches_on_sizes(branches, traced.graph.axis_names, strict)
    for each in static_axes:
        warn_of_static_axes(each.fixed, each.axis_names)
    traced.axes = attempt.axes
    return traced


def _coincidence(
    wanted: ToRecord, attempt: Attempt, found: FrozenSizes, reached: PythonState, arguments: PythonState
) -> int | None:
    """The number of a split, if its sizes stay the same where the program reads other numbers from values."""
    if found.trial is None:
        return None
    try:
        _recorded(wanted, replace(attempt, trial=found.trial), reached, arguments, [])
    except SizesOfTrial as seen:
        return found.trial.split if seen.sizes == found.sizes else None
    except _FAILURES:
        return None
    return None


def _refuse_if_it_runs_otherwise(
    wanted: ToRecord, attempt: Attempt, found: AxesFixed, reached: PythonState, arguments: PythonState
) -> None:
    """Refuse a program that fixes dynamic axes, unless it runs with no other sizes of them anyway."""
    from onnx_parity.exporter.tracing.other_sizes import runs_with_another_size

    def runs(resized: ToRecord, static: Attempt) -> bool:
        try:
            _recorded(resized, static, reached, arguments, [])
        except ProgramFailedError:
            return False
        except _FAILURES:
            return True  # The program itself may run.
        return True

    if wanted.strict or attempt.axes.must_vary or runs_with_another_size(wanted, attempt, found.fixed, runs):
        raise fixed_axes(found.fixed, found.axis_names) from None


def _that_matter(traced: Traced, again: Recording) -> list[Assumption]:
    if not traced.branches:
        return []
    from onnx_parity.exporter.tracing.branches_on_sizes import branches_that_matter

    return branches_that_matter(traced, again)


def _recorded_again(
    wanted: ToRecord,
    attempt: Attempt,
    reached: PythonState,
    arguments: PythonState,
    *,
    denied: frozenset[Expression] = frozenset(),
    empty: str | None = None,
) -> Traced | None:
    from onnx_parity.exporter.tracing.branches_on_sizes import NotRecorded

    try:
        return _recorded(wanted, replace(attempt, denied=denied, empty=empty), reached, arguments, [])
    except ProgramFailedError:
        return None
    except _FAILURES as error:
        raise NotRecorded from error


def _recorded(
    wanted: ToRecord, attempt: Attempt, reached: PythonState, arguments: PythonState, earlier: list[Survivors]
) -> Traced:
    """Record the program in one attempt, and leave it and its arguments as they were.

    If it is to be recorded again, what the program may still hold of this attempt is added to `earlier`.
    """
    survivors, outer = Survivors(), sys.exception()
    try:
        with capturing_surroundings(), _calls_with_sizes(reached, attempt):
            traced = record(wanted, attempt, survivors, [names for _, names in reached.functions])
    except BaseException as error:
        clear_locals(error, outer)
        arguments.restore()
        survivors.restore(reached)
        if isinstance(error, _RETRIED):
            earlier.append(survivors)
            raise
        try:
            survivors.remove()
        except KeptTensorError as kept:
            error.add_note(str(kept))  # What the program itself raised is more important.
        raise
    arguments.restore()
    survivors.restore(reached)
    survivors.remove()
    return traced


def _calls_with_sizes(reached: PythonState, attempt: Attempt) -> AbstractContextManager[None]:
    if not attempt.symbolic or attempt.plain_numbers:
        return nullcontext()
    from onnx_parity.exporter.sizes.exchanged_calls import NAMES, calls_with_sizes

    return calls_with_sizes(function for function, names in reached.functions if not NAMES.isdisjoint(names))
