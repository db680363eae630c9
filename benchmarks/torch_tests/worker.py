"""A process that runs torch's tests, which it receives one by one, and sends the outcomes.

python -m benchmarks.torch_tests.worker FOLDER DESCRIPTOR
"""

from __future__ import annotations

import os
import sys
import unittest
import warnings
from contextlib import suppress
from pathlib import Path
from unittest import mock

import msgspec
import torch

from benchmarks.torch_tests.judge import Call, exporting_function, judge
from benchmarks.torch_tests.outcome import Mode, Outcome, Task
from benchmarks.torch_tests.stand_ins import TestCase, import_tests
from onnx_parity.harness.comparison.outcome import Verdict
from onnx_parity.harness.comparison.worker import raised
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.running.channel import Channel, die_with
from onnx_parity.harness.subjects.exporters import EXPORTERS


def outcomes(tests: type[TestCase], task: Task) -> list[Outcome]:
    """Run a test: one outcome for each of its programs, or one that says why there is none."""
    found: list[Outcome] = []

    def add(verdict: Verdict | None, reason: str = "") -> None:
        found.append(Outcome(task, len(found), verdict, reason))

    def judge_call(call: Call) -> None:
        add(*judge(call, task.exporter, task.opset))

    tests.judge = judge_call
    export = mock.Mock(side_effect=exporting_function(task.exporter))
    test = tests(task.test)
    test.opset_version, test.is_script = task.opset, task.mode is Mode.SCRIPTED
    try:
        with mock.patch.object(torch.onnx, "export", export):
            test.setUp()
            getattr(test, task.test)()
    except unittest.SkipTest as skipped:
        add(None, f"skipped: {skipped}")
    except AssertionError as error:
        # Some tests expect an error of torch's exporter; these programs have been judged.
        if not found:
            add(Verdict.WRONG if export.called else None, error_line(error))
    except Exception as error:  # noqa: BLE001  The tests are of an older torch, whose errors have no common class.
        if not found:
            add(*(raised(EXPORTERS[task.exporter], error) if export.called else (None, error_line(error))))
    if not found:
        # Tests of random operators export by themselves, and assert what holds of the results.
        asked = export.called and task.mode is Mode.TRACED
        add(*((Verdict.RIGHT,) if asked else (None, f"has no {task.mode} program")))
    return found


def main(folder: str, descriptor: int) -> None:
    """Send the names of the tests, then answer tasks until there are no more."""
    die_with(os.getppid())
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    channel = Channel(sys.stdin.fileno(), descriptor)
    tests = import_tests(Path(folder))
    channel.send(msgspec.json.encode(unittest.TestLoader().getTestCaseNames(tests)))
    with suppress(EOFError):
        while True:
            channel.send(msgspec.json.encode(outcomes(tests, msgspec.json.decode(channel.receive(), type=Task))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
