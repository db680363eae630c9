"""A process that runs torch's tests, which it receives one by one, and sends the records of their programs.

python -m benchmarks.torch_tests.worker FOLDER DESCRIPTOR
"""

from __future__ import annotations

import sys
import unittest
import warnings
from pathlib import Path
from unittest import mock

import msgspec
import torch

from benchmarks.torch_tests.cases import TorchTest, record_of
from benchmarks.torch_tests.judge import Call, exporting_function, mark_error, run_call
from benchmarks.torch_tests.stand_ins import TestCase, import_tests
from onnx_parity.harness.axes import ONNXRUNTIME, Capture, Shapes
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.record import Record, Stage
from onnx_parity.harness.running.channel import to_owner


def run_test(tests: type[TestCase], asked: TorchTest) -> list[Record]:
    """Run a test: one record for each of its programs, or one that says why there is none."""
    found: list[Outcome] = []

    def run_program(call: Call) -> None:
        shapes = Shapes.DYNAMIC if call.dynamic_axes else Shapes.STATIC
        found.append(run_call(call, asked.cell(len(found), shapes)))

    tests.run_program = run_program
    export = mock.Mock(side_effect=exporting_function(asked.exporter))
    test = tests(asked.name)
    test.opset_version, test.is_script = asked.opset, asked.capture is Capture.SCRIPT
    outcome = Outcome(asked.cell(0), ONNXRUNTIME)
    try:
        with mock.patch.object(torch.onnx, "export", export):
            test.setUp()
            getattr(test, asked.name)()
    except unittest.SkipTest as skipped:
        outcome.absent(f"skipped: {skipped}")
    except Exception as error:  # noqa: BLE001  The tests are of an older torch, whose errors have no common class.
        # Some tests expect an error of torch's exporter; their programs have been judged.
        if not export.called:
            outcome.absent(error_line(error))
        elif isinstance(error, AssertionError):
            outcome.stage = Stage.COMPARE
            outcome.fail(error)
        else:
            mark_error(outcome, error)
    else:
        # Tests of random operators export by themselves, and assert what holds of the results.
        if not export.called or asked.capture is Capture.SCRIPT:
            outcome.absent(f"has no program to {asked.capture}")
    return [record_of(each) for each in found or [outcome]]


def main(folder: str, descriptor: int) -> None:
    """Send the names of the tests, then answer until no more are asked for."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tests = import_tests(Path(folder))
    with to_owner(descriptor) as channel:
        channel.send(msgspec.json.encode(unittest.TestLoader().getTestCaseNames(tests)))
        while True:
            asked = msgspec.json.decode(channel.receive(), type=TorchTest)
            channel.send(msgspec.json.encode(run_test(tests, asked)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
