"""`assert_onnx_program`, for the tests of projects that export models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

from onnx_parity.exporter.errors import ArgumentError, VerificationError

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["assert_onnx_program"]


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
    in_torch = ProgramOutputs(program.source, program.returned, len(program.model.graph))
    trial = Trial.given(program.source, args, kwargs)
    session = ReferenceSession(program.model) if backend == "reference" else program.runtime_session()
    outputs = item_by_item(session.run(program.feeds(trial.args, trial.kwargs)))
    if rtol is None and atol is None:
        verdict = judge([to_array(output) for output in outputs], in_torch.expected(trial, closely=True))
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
