"""Runs ONNX's own node tests (`onnx.backend.test`) on a runtime of the harness.

These tests check the runtime, and the way in which the harness calls it, and not an exporter. They run in a process of
their own: one that crashes, hangs or takes too much memory is the outcome of a test, and the next test gets a new one.
"""

from __future__ import annotations

import difflib
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from onnx_parity.harness.axes import Device
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.record import Ending
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.limits import half_of_the_machine
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, NotUsableError, Runtime

#: Characters that are kept of numpy's description of a difference.
_REASON = 300
#: The limit of one test. The slowest runtimes compile for some seconds.
SECONDS = 60.0
#: How the message about a test that takes longer begins.
_ENDLESS = "did not end"


class NodeTest(msgspec.Struct, frozen=True):
    """The result of one test."""

    name: str
    ending: Ending
    reason: str = ""


_decoder = msgspec.json.Decoder(NodeTest)


def run_suite(runtime: Runtime, pattern: str = "", *, seconds: float = SECONDS) -> Iterator[NodeTest]:
    """Every node test whose name contains the pattern, each limited to so many seconds."""
    names = names_with(pattern)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        process: ChildProcess | None = None
        for name in names:
            process = process or ChildProcess.forked(partial(_serve, runtime), Path(folder) / "stderr")
            try:
                process.send(name.encode())
                yield _decoder.decode(process.receive(partial(_look, process, time.monotonic(), seconds)))
            except ProcessEndedError as ended:
                process = None
                hung = str(ended).startswith(_ENDLESS)
                yield NodeTest(name, Ending.HUNG if hung else Ending.CRASHED, f"its process {ended}")
        if process is not None:
            process.end()


def _look(process: ChildProcess, since: float, seconds: float) -> None:
    process.limit_memory(half_of_the_machine())
    process.limit_time(seconds, since, f"{_ENDLESS} within {seconds:g} s and was killed")


def _serve(runtime: Runtime, channel: Channel) -> None:
    """In the process: run the tests of the names that are asked for."""
    tests = {test.name: test for test in _tests()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The tests' inputs cause warnings, and onnx.reference computes in numpy.
        while True:
            channel.send(msgspec.json.encode(_run(runtime, tests[channel.receive().decode()])))


def names_with(pattern: str) -> list[str]:
    """The names of the node tests that contain the pattern."""
    return [test.name for test in _tests() if pattern in test.name]


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
    except (NoKernelError, NotUsableError) as error:
        return NodeTest(test.name, Ending.UNSUPPORTED, str(error))
    except Exception as error:  # noqa: BLE001  A runtime may raise anything.
        return NodeTest(test.name, Ending.REFUSED, error_line(error))
    return NodeTest(test.name, Ending.RIGHT)


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
