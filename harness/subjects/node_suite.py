"""Runs ONNX's own node tests (`onnx.backend.test`) on a runtime of the harness.

These tests check the runtime, and the way in which the harness calls it, and not an exporter.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from onnx_parity.harness.axes import Device
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, Runtime

#: Characters that are kept of numpy's description of a difference.
_REASON = 300


class Ending(StrEnum):
    """The outcome of a node test."""

    PASSED = "passed"
    #: The runtime reports that it does not support the opset, or has no kernel for the operator or its types.
    UNSUPPORTED = "unsupported"
    #: The runtime did not load or run the model, for another reason.
    REFUSED = "refused"
    #: The runtime returned wrong outputs.
    WRONG = "wrong"


class NodeTest(msgspec.Struct, frozen=True):
    """The result of one test."""

    name: str
    ending: Ending
    reason: str = ""


def run_suite(runtime: Runtime, pattern: str = "") -> Iterator[NodeTest]:
    """Every node test whose name contains the pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The tests' inputs cause warnings, and onnx.reference computes in numpy.
        for test in _tests():
            if pattern in test.name:
                yield _run(runtime, test)


def near(pattern: str) -> list[str]:
    """Names of operators similar to a pattern that matches no node test."""
    operators = {test.name.removeprefix("test_").partition("_")[0] for test in _tests()}
    return difflib.get_close_matches(pattern.removeprefix("test_"), sorted(operators))


@cache
def _tests() -> Sequence[Any]:
    """All node tests. Creating their inputs takes seconds."""
    with warnings.catch_warnings():
        # The tests' inputs divide by zero, overflow and use deprecated parts of numpy, on purpose.
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind="node"))


def _run(runtime: Runtime, test: Any) -> NodeTest:
    above = [each for each in test.model.opset_import if each.domain in ("", "ai.onnx")]
    if above and above[0].version not in runtime.opsets:
        return NodeTest(test.name, Ending.UNSUPPORTED, f"opset {above[0].version}")
    names = [value.name for value in test.model.graph.input]
    try:
        session = runtime.load(test.model.SerializeToString(), Device.CPU)
        for inputs, outputs in test.data_sets:
            feeds = dict(zip(names, map(_plain, inputs), strict=False))
            given = list(session.run(feeds))
            if difference := _difference(given, list(map(_plain, outputs)), test):
                return NodeTest(test.name, Ending.WRONG, difference)
    except NoKernelError as error:
        return NodeTest(test.name, Ending.UNSUPPORTED, str(error))
    except Exception as error:  # noqa: BLE001  A runtime may raise anything.
        return NodeTest(test.name, Ending.REFUSED, f"{type(error).__name__}: {one_line(str(error))}")
    return NodeTest(test.name, Ending.PASSED)


def _difference(given: Sequence[object], wanted: Sequence[object], test: Any) -> str:
    try:
        Runner.assert_similar_outputs(wanted, given, rtol=test.rtol, atol=test.atol)
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        return " ".join(str(error).split())[:_REASON]
    return ""


def _plain(value: Any) -> Any:
    """A tensor of a test as an array. They are arrays, numpy scalars, or protobufs for dtypes that numpy lacks."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value
