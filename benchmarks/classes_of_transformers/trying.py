"""The process that exports one class after the other, and says what became of each."""

from __future__ import annotations

import enum
import signal
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

import msgspec
import torch

import onnx_parity
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.cases.dynamic_axes import named_axes
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.zoo import Built, CannotBuildError
from onnx_parity.model_zoo.all_of_transformers import transformers_classes

__all__ = ["MOST_SECONDS", "Outcome", "Result", "serve"]

#: What `verify=True` says of such a program.
_AT_ONE_SIZE = "the program itself fails in torch at every other size"
_EXPERTS = "call model.set_experts_implementation('grouped_mm')"
#: Seconds of processor time that a class may take, both exports together, before its process is ended.
MOST_SECONDS = 240


class Outcome(enum.StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    #: Right for the sizes that a warning of the export says, if they are stated with `assume`.
    STATED = "right for the sizes that it states"
    REFUSED = "refused"
    SLOW = "too slow"
    CRASHED = "crashed"
    #: Eager computes something else where no token is padded than where transformers makes a mask, as in an export.
    DIVIDED = "eager has two results"
    #: Eager runs it at the sizes of the example only.
    ONE_SIZE = "eager at one size only"
    #: Eager PyTorch does not run it with a small configuration and inputs made up for it.
    NOT_RUN = "not run by eager"


class Result(msgspec.Struct, frozen=True):
    name: str
    shapes: str
    outcome: Outcome
    reason: str
    #: Of processor time, which is the same on a machine that does other things too.
    seconds: float


def serve(answers: Connection, opset: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    while True:
        name = answers.recv()
        # The signal ends the process, whatever it computes.
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        for result in _results_of(name, opset):
            answers.send(result)
        answers.send(None)


def _results_of(name: str, opset: int) -> Iterator[Result]:
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            built = transformers_classes.build(name)
            with torch.no_grad():
                for weight in built.module.parameters():
                    # With zeros, routers have no preference, and which experts they choose is not defined.
                    if weight.is_floating_point() and weight.numel() > 1 and bool((weight == 0).all()):
                        weight.normal_(std=0.1)
    except CannotBuildError as error:
        yield Result(name, "static", Outcome.NOT_RUN, str(error), 0)
        return
    for shapes, axes in (("static", None), ("dynamic", _dynamic(built))):
        if axes == {}:
            continue
        begun = time.process_time()
        outcome, reason = _outcome(built, axes, opset)
        yield Result(name, shapes, outcome, reason, time.process_time() - begun)


def _dynamic(built: Built) -> Mapping[str, dict[int, str]]:
    named = {name: named_axes(axes) for name, axes in transformers_classes.dynamic.items() if name in built.inputs}
    kept = {
        name: {axis: each for axis, each in axes.items() if each not in built.static} for name, axes in named.items()
    }
    return {name: axes for name, axes in kept.items() if axes}


def _outcome(built: Built, axes: Mapping[str, Any] | None, opset: int) -> tuple[Outcome, str]:
    try:
        _export(built, axes, opset, verify=True)
    except VerificationError as error:
        if _is_right_as_stated(built, axes, opset):
            return Outcome.STATED, ""
        if _AT_ONE_SIZE in str(error):
            return Outcome.ONE_SIZE, ""
        if "attention_mask" in built.inputs and _has_two_results(built):
            return Outcome.DIVIDED, error_line(error)
        return Outcome.WRONG, error_line(error)
    except Exception as error:  # noqa: BLE001  Whatever an export raises is its answer.
        model: Any = built.module.model
        if _EXPERTS not in str(error) or model.config._experts_implementation == "grouped_mm":
            return Outcome.REFUSED, error_line(error)
        # What the error says.
        model.set_experts_implementation("grouped_mm")
        return _outcome(built, axes, opset)
    return Outcome.RIGHT, ""


def _export(
    built: Built, axes: Mapping[str, Any] | None, opset: int, *, verify: bool, assume: Sequence[str] = ()
) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(
        built.module,
        tuple(maker.make(0, Dtype.FLOAT32) for maker in built.inputs.values()),
        opset_version=opset,
        input_names=list(built.inputs),
        dynamic_axes=axes and dict(axes),
        verify=verify,
        assume=assume,
    )


def _is_right_as_stated(built: Built, axes: Mapping[str, Any] | None, opset: int) -> bool:
    """Whether it is if the caller states what the export warns of: sizes at which the program takes another branch."""
    conditions = [each.condition for each in _export(built, axes, opset, verify=False).assumptions]
    if not conditions:
        return False
    try:
        _export(built, axes, opset, verify=True, assume=conditions)
    except VerificationError:
        return False
    return True


def _has_two_results(built: Built) -> bool:
    """Whether the results differ, if no token is padded, with and without the mask that transformers makes for that."""
    inputs = [
        torch.ones_like(made) if name == "attention_mask" else made
        for name, made in ((name, maker.make(0, Dtype.FLOAT32)) for name, maker in built.inputs.items())
    ]
    without = built.module(*inputs)
    with patch("torch.compiler.is_exporting", return_value=True):
        masked = built.module(*inputs)
    return not all(torch.allclose(*each, rtol=1e-3, atol=1e-4) for each in zip(without, masked, strict=True))
