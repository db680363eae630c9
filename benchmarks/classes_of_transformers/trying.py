"""The process that exports one class after the other, and says what became of each."""

from __future__ import annotations

import enum
import time
import warnings
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import torch

import onnx_parity
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.cases.dynamic_axes import named_axes
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.zoo import Built, CannotBuildError
from onnx_parity.model_zoo.all_of_transformers import transformers_classes

__all__ = ["Outcome", "Result", "serve"]


class Outcome(enum.StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"
    SLOW = "too slow"
    CRASHED = "crashed"
    #: Eager PyTorch does not run it with a small configuration and inputs made up for it.
    NOT_RUN = "not run by eager"


class Result(msgspec.Struct, frozen=True):
    name: str
    shapes: str
    outcome: Outcome
    reason: str
    seconds: float


def serve(answers: Connection, opset: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    while True:
        answers.send(list(_results_of(answers.recv(), opset)))


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
        begun = time.perf_counter()
        outcome, reason = _outcome(built, axes, opset)
        yield Result(name, shapes, outcome, reason, time.perf_counter() - begun)


def _dynamic(built: Built) -> Mapping[str, dict[int, str]]:
    named = {name: named_axes(axes) for name, axes in transformers_classes.dynamic.items() if name in built.inputs}
    kept = {
        name: {axis: each for axis, each in axes.items() if each not in built.static} for name, axes in named.items()
    }
    return {name: axes for name, axes in kept.items() if axes}


def _outcome(built: Built, axes: Mapping[str, Any] | None, opset: int) -> tuple[Outcome, str]:
    inputs = tuple(maker.make(0, Dtype.FLOAT32) for maker in built.inputs.values())
    try:
        onnx_parity.export(
            built.module,
            inputs,
            opset_version=opset,
            input_names=list(built.inputs),
            dynamic_axes=axes and dict(axes),
            verify=True,
        )
    except VerificationError as error:
        return Outcome.WRONG, error_line(error)
    except Exception as error:  # noqa: BLE001  Whatever an export raises is its answer.
        return Outcome.REFUSED, error_line(error)
    return Outcome.RIGHT, ""
