"""ONNX's node tests on runtimes: passed, wrong and unsupported tests are distinguished."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME
from onnx_parity.harness.cli import app
from onnx_parity.harness.record import Ending
from onnx_parity.harness.running.node_suite import run_suite
from onnx_parity.harness.subjects.runtimes import RUNTIMES
from tests.harness.fakes import LyingRuntime

#: onnx computes the expected values of all its pooling tests in Python, whichever are asked for.
pytestmark = pytest.mark.slow


def test_runtimes_pass_what_they_know() -> None:
    for runtime in (ONNXRUNTIME, ONNX_REFERENCE):
        found = list(run_suite(RUNTIMES[runtime], "test_softplus"))
        assert len(found) >= 2
        assert {test.ending for test in found} == {Ending.RIGHT}


def test_a_runtime_that_is_wrong_is_found_out() -> None:
    lying = LyingRuntime(lambda output: output + np.float32(1e-2))
    assert {test.ending for test in run_suite(lying, "test_softplus")} == {Ending.WRONG}
    short = LyingRuntime(lambda output: output[..., :1])
    (found, *_) = run_suite(short, "test_softplus_example")
    assert (found.ending, "incorrect shape" in found.reason) == (Ending.WRONG, True)


def test_opsets_and_kernels_that_a_runtime_has_not_are_no_fault() -> None:
    found = {test.name: test for test in run_suite(RUNTIMES[ONNXRUNTIME], "test_acos")}
    assert all(test.ending in (Ending.RIGHT, Ending.UNSUPPORTED) for test in found.values())


def test_the_command_counts() -> None:
    result = CliRunner().invoke(app, ["node-tests", "test_softplus"])
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if line]
    assert len(lines) == 2
    assert lines[0].startswith("onnxruntime: ")
    assert lines[0].endswith(" right, 0 unsupported, 0 refused, 0 hung, 0 crashed, 0 wrong")
    found = json.loads(CliRunner().invoke(app, ["node-tests", "test_softplus", "--json"]).stdout)
    assert Counter(test["ending"] for test in found[ONNXRUNTIME])["right"] == len(found[ONNXRUNTIME])


def test_what_a_runtime_gets_wrong_comes_first_with_what_the_others_make_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lying = LyingRuntime(lambda output: output[..., :1], ONNX_REFERENCE)
    monkeypatch.setitem(RUNTIMES, ONNX_REFERENCE, lying)
    lines = CliRunner().invoke(app, ["node-tests", "test_softplus_example"]).stdout.splitlines()
    assert lines[0].startswith("wrong: onnx.reference: test_softplus_example; 1 of 1 other runtimes are right: ")
    assert next(line for line in lines if " node tests: " in line).startswith("onnxruntime: ")


@pytest.mark.parametrize(
    ("pattern", "hint"), [("softmx", " Similar operators: softmax, logsoftmax, stft."), ("zzz", "")]
)
def test_a_pattern_of_no_test_is_refused(pattern: str, hint: str) -> None:
    result = CliRunner().invoke(app, ["node-tests", pattern])
    assert (result.exit_code, result.output) == (2, f"No node test has a name that contains {pattern!r}.{hint}\n")


def test_a_runtime_that_is_missing_is_refused() -> None:
    result = CliRunner().invoke(app, ["node-tests", "--runtimes", "backend:no_such_backend"])
    assert (result.exit_code, result.output) == (
        2,
        "--runtimes backend:no_such_backend: this runtime cannot be used here: no_such_backend cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_backend'\n",
    )
