"""`verify=True`: checks, loads and runs an exported model, and compares every output with torch's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import onnx
import torch

from onnx_parity.exporter.arrays import Array, to_array
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.exporter.files import write
from onnx_parity.exporter.graph.graph import operator_name
from onnx_parity.exporter.progress import progress
from onnx_parity.exporter.request.opsets import NEWEST_OF_ONNXRUNTIME
from onnx_parity.exporter.runtime.sessions import (
    ReferenceSession,
    RuntimeSession,
    errors_of_runtimes,
    item_by_item,
)
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.exporter.verification.program_outputs import ProgramOutputs
from onnx_parity.exporter.verification.silent import silent
from onnx_parity.exporter.verification.trials import Trial, other_sizes, trials

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["FailedTrialError", "verify"]

#: How often a program that draws random numbers is run again. A few of these may be the same by chance.
_RUNS = 8
#: Operators with an argument whose elements have to be in order.
_OF_ORDERED = frozenset(
    {
        "aten::_embedding_bag",
        "aten::_embedding_bag_forward_only",
        "aten::_pack_padded_sequence",
        "aten::bucketize",
        "aten::searchsorted",
    }
)


class FailedTrialError(VerificationError):
    """The model fails, or returns other results than the program, for the inputs of a trial."""

    def __init__(self, message: str, trial: Trial | None = None, expected: Sequence[Expected] = ()) -> None:
        super().__init__(message)
        self.trial = trial
        self.expected = expected


def verify(program: ONNXProgram) -> None:
    """Raise `VerificationError` at the first difference or error."""
    with torch.random.fork_rng(devices=[]):
        _Verification(program).run()


class _Verification:
    """The verification of one model against its program in torch."""

    def __init__(self, program: ONNXProgram) -> None:
        self._program = program
        self._in_torch = ProgramOutputs(program.source, program.returned, len(program.model.graph))
        self._session = _session(program)

    def run(self) -> None:
        source, keeps_order = self._program.source, _takes_ordered(self._program)
        if any(isinstance(each, torch.Tensor) and each.is_meta for each in tree_leaves((source.args, source.kwargs))):
            raise VerificationError(
                "an example input is on the meta device, which has no data to run the model on: give an example with "
                "values, or export without verify=True"
            )
        for trial in trials(source, keeps_order):
            self._compare(trial)
        refused: list[str] = []
        tried = 0
        for alternatives in other_sizes(source, keeps_order):
            reason = ""
            for trial in alternatives:
                reason = self._compare(trial)
                if not reason:
                    break
            refused += [f"{alternatives[0].what}: {reason}"] if reason else []
            tried += 1
        if refused and len(refused) == tried:
            raise VerificationError(
                "the export asked for dynamic axes, but the program itself fails in torch at every other size of them:"
                "\n  - "
                + "\n  - ".join(refused)
                + "\nExport with these axes static, or write the program for any size."
            )

    def _compare(self, trial: Trial) -> str:
        """Compare the model with the program. Returns the program's error if it does not accept the inputs."""
        with progress(f"verifying the model for {trial.what}"), silent() if trial.invented else nullcontext():
            return self._compared(trial)

    def _compared(self, trial: Trial) -> str:
        program = self._program
        try:
            expected = self._in_torch.expected(trial)
        except VerificationError:
            raise
        except Exception as error:
            if not trial.invented:
                raise VerificationError(f"the program fails in torch for {trial.what}: {error}") from error
            return f"{type(error).__name__}: {error}"
        try:
            results = item_by_item(self._session.run(program.feeds(trial.args, trial.kwargs)))
        except errors_of_runtimes() as error:
            raise FailedTrialError(f"the model fails for {trial.what}: {error}", trial, expected) from error
        outputs = [to_array(result) for result in results]
        verdict = judge(outputs, expected)
        if not verdict.passed:
            expected = self._in_torch.expected(trial, closely=True)
            verdict = judge(outputs, expected)
        if not verdict.passed and len(outputs) == len(expected):
            verdict = judge(outputs, self._without_random(trial, expected, outputs))
        if not verdict.passed:
            message = (
                f"the outputs of the model differ from those of the program for {trial.what}: "
                f"{verdict.detail}. The outputs are {', '.join(program.output_names)}"
            )
            raise FailedTrialError(message, trial, expected)
        return ""

    def _without_random(self, trial: Trial, expected: list[Expected], outputs: list[Array]) -> list[Expected]:
        """The expected outputs. Outputs that differ between runs in torch are random, and any value is accepted."""
        first = self._in_torch.outputs(trial)
        is_random = [False] * len(first)
        for _ in range(_RUNS):
            before = torch.random.get_rng_state()
            again = self._in_torch.outputs(trial)
            pairs = zip(is_random, first, again, strict=True)
            is_random = [known or not torch.equal(one, other) for known, one, other in pairs]
            if torch.equal(before, torch.random.get_rng_state()):
                break
        wanted = []
        for want, got, varies in zip(expected, outputs, is_random, strict=True):
            fits = got.dtype == want.value.dtype and got.shape == want.value.shape
            wanted.append(Expected(got) if fits and varies else want)
        return wanted


def _takes_ordered(program: ONNXProgram) -> bool:
    """Whether the program takes sequences in order. torch refuses others, or does not define the result."""
    functions = program.model.functions.values()
    nodes = (*program.model.graph.all_nodes(), *(node for function in functions for node in function.all_nodes()))
    origins = (node.meta.get("origin") for node in nodes)
    return any(operator_name(origin.op) in _OF_ORDERED for origin in origins if origin is not None)


def _session(program: ONNXProgram) -> RuntimeSession | ReferenceSession:
    """Check and load the model. onnx.reference runs models of opsets that onnxruntime does not support."""
    runtime = None
    if program.opset_version <= NEWEST_OF_ONNXRUNTIME:
        try:
            runtime = program.runtime_session()
        except errors_of_runtimes() as error:
            raise VerificationError(f"onnxruntime cannot load the model: {error}") from error
    try:
        if runtime is not None and runtime.path is not None:
            onnx.checker.check_model(runtime.path, full_check=True)
        else:
            onnx.checker.check_model(write.serialize(program.model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise VerificationError(f"the model is not valid ONNX: {error}") from error
    return runtime if runtime is not None else ReferenceSession(program.model)
