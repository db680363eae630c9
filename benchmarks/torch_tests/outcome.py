"""What is asked of a worker, and what it answers."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from onnx_parity.harness.comparison.outcome import Verdict


class Mode(StrEnum):
    TRACED = "traced"
    SCRIPTED = "scripted"


class Task(msgspec.Struct, frozen=True, order=True):
    """A test to run for one exporter."""

    exporter: str
    opset: int
    test: str
    mode: Mode


class Outcome(msgspec.Struct, frozen=True):
    """What an exporter made of one program of a test. Most tests have one program, some have dozens."""

    task: Task
    #: The number of the program within its test.
    program: int
    #: None where nothing could be judged, because the test is skipped or torch itself fails.
    verdict: Verdict | None
    #: Why it is not right, in one line. Of another exporter's that is right: in what the model is wrong with another
    #: size of an axis that the test declares dynamic.
    reason: str = ""

    @property
    def point(self) -> tuple[int, str, Mode, int]:
        """What it has in common with the outcomes of other exporters."""
        return self.task.opset, self.task.test, self.task.mode, self.program
