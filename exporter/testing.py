"""`assert_exports` and `assert_onnx_program`, for the tests of projects that export models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from onnx_parity.exporter.captured_program import Capture
from onnx_parity.exporter.capturing import Program, record_program
from onnx_parity.exporter.errors import ArgumentError, ExportError, VerificationError
from onnx_parity.exporter.lowering.custom.symbolic import TranslationTable
from onnx_parity.exporter.progress import progress
from onnx_parity.exporter.request.dynamic_axes import DynamicAxes
from onnx_parity.exporter.request.dynamic_shapes import DynamicShapes
from onnx_parity.exporter.request.keywords import suggesting_keywords
from onnx_parity.exporter.request.opsets import checked_opset
from onnx_parity.exporter.request.record_options import RecordOptions

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["assert_exports", "assert_onnx_program"]


@suggesting_keywords
def assert_exports(
    model: Program,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    opsets: int | Iterable[int] | None = None,
    input_names: Sequence[str] | None = None,
    dynamic_axes: DynamicAxes | None = None,
    dynamic_shapes: DynamicShapes | None = None,
    training: object = False,
    custom_translation_table: TranslationTable | None = None,
    bundles: str | os.PathLike[str] | None = None,
) -> None:
    """Raise `VerificationError` (an AssertionError) unless the model exports, and its exports compute what it computes.

    The program is recorded once, and lowered to each of `opsets`: one number, several, or 18 if none is given. Each
    model is verified as `ONNXProgram.verify` does: on the example inputs, on other values, and on other sizes of the
    dynamic axes. The error lists the opsets that fail, each with the output and the element that differ most, the
    first wrong value inside the model with the line of the program, and the folder of a bundle, in which `repro.py`
    shows the failure without this package. Bundles are written into `bundles`, or else into a temporary folder; the
    fixture `assert_exports` of the pytest plug-in is this function, with the test's `tmp_path` as that folder. The
    other arguments are those of `export`; a name in `dynamic_axes` that no input has is an error here.
    """
    __tracebackhide__ = True
    if isinstance(opsets, str):
        raise ArgumentError(f"opsets is {opsets!r}: give numbers, such as 13, [13, 18] or range(13, 19)")
    wanted = [opsets] if opsets is None or isinstance(opsets, int) else opsets
    options = RecordOptions(
        input_names=input_names,
        dynamic_axes=dynamic_axes,
        dynamic_shapes=dynamic_shapes,
        training=training,
        custom_translation_table=custom_translation_table,
        refuse_unknown_axes=True,
    )
    try:
        numbers = list(dict.fromkeys(map(checked_opset, wanted)))
        if not numbers:
            raise ArgumentError("opsets is empty: give the opsets to export to, such as [13, 18], or leave it out")
        with progress("recording the program"):
            capture = record_program(model, args, kwargs, options)
    except ExportError as error:
        # Its message says all. pytest would print the source and the arguments of every function of the exporter.
        raise error.with_traceback(None) from error.__cause__
    found = {opset: _failure_at(opset, capture, None if bundles is None else Path(bundles)) for opset in numbers}
    failed = {opset: text for opset, text in found.items() if text}
    if failed:
        of = "" if len(numbers) == 1 else f" at {len(failed)} of {len(numbers)} opsets"
        each = "\n".join(f"opset {opset}: {text}" for opset, text in failed.items())
        raise VerificationError(f"{_name_of(model)} does not export correctly{of}:\n{each}")


def _failure_at(opset: int, capture: Capture, bundles: Path | None) -> str:
    """What is wrong at an opset, for a reader; empty if nothing is."""
    try:
        program = capture.lower(opset)
    except ExportError as error:
        return str(error)
    try:
        program.verify()
    except VerificationError as error:
        from onnx_parity.exporter.verification.explained import explained

        return explained(program, error, bundles)
    return ""


def _name_of(model: Program) -> str:
    return getattr(model, "__name__", None) or type(model).__name__


def assert_onnx_program(
    program: ONNXProgram,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    backend: Literal["onnxruntime", "reference"] = "onnxruntime",
) -> None:
    """Raise `VerificationError` (an AssertionError) unless the outputs of the model are those of the program in torch.

    They are compared for these arguments, or for those of the export. The number of outputs, dtypes, shapes, and the
    places of NaN and infinities must be the same. Values may be as far from the float64 result as torch's own may be,
    or differ within `rtol` and `atol`. `strategy` is accepted and ignored: there is one way to record a program.
    """
    from onnx_parity.exporter.arrays import to_array
    from onnx_parity.exporter.program import ONNXProgram
    from onnx_parity.exporter.runtime.sessions import ReferenceSession, item_by_item
    from onnx_parity.exporter.verification.oracle import judge
    from onnx_parity.exporter.verification.program_outputs import ProgramOutputs
    from onnx_parity.exporter.verification.trials import Trial

    del strategy
    if backend not in ("onnxruntime", "reference"):
        raise ArgumentError(f"backend is {backend!r}: give 'onnxruntime' or 'reference'")
    tolerances: dict[str, Any] = {"rtol": rtol, "atol": atol}
    for name, given in tolerances.items():
        if given is not None and (not isinstance(given, int | float) or not given >= 0):
            raise ArgumentError(f"{name} is {given!r}: give a number that is not negative, or None")
    if not isinstance(program, ONNXProgram):
        raise ArgumentError(f"program is {program!r}: give what onnx_parity.export returns")
    in_torch = ProgramOutputs.of(program)
    trial = Trial.given(program.source, args, kwargs)
    session = ReferenceSession(program.model) if backend == "reference" else program.runtime_session()
    outputs = item_by_item(session.run(program.feeds(trial.args, trial.kwargs)))
    if rtol is None and atol is None:
        verdict = judge([to_array(output) for output in outputs], in_torch.expected(trial))
        if not verdict.passed:
            raise VerificationError(
                f"the outputs of the model differ from those of the program in torch: {verdict.detail}"
            )
        return
    wanted = in_torch.outputs(trial)
    if len(outputs) != len(wanted):
        raise VerificationError(f"the model returns {len(outputs)} tensors, and the program returns {len(wanted)}")
    for number, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        try:
            torch.testing.assert_close(got, want.cpu(), rtol=rtol or 0.0, atol=atol or 0.0, equal_nan=True)
        except AssertionError as error:
            raise VerificationError(f"output {number} of the model differs from the program's: {error}") from None
