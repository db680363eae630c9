"""PyTorch's tests as cases of the harness: each program of a test is a cell of an exporter, and ends as a record."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.torch_tests.source import TESTS
from onnx_parity.harness.axes import ONNXRUNTIME, Capture, Device, Dtype, Shapes
from onnx_parity.harness.case import Case, Declaration
from onnx_parity.harness.judging.outcome import Outcome, blank_record
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Kind, Record

#: Each test is run in both ways of torch's older exporter.
CAPTURES = (Capture.TRACE, Capture.SCRIPT)
#: The tests draw their inputs themselves, most of them as float32.
_DECLARATION = Declaration(kind=Kind.OPERATOR, dtypes=(Dtype.FLOAT32,), file=Path(TESTS), line=1)


class TorchTest(msgspec.Struct, frozen=True, order=True):
    """A test to run with one exporter. Most tests have one program, some have dozens."""

    exporter: str
    opset: int
    name: str
    capture: Capture

    @classmethod
    def of(cls, record: Record) -> TorchTest:
        return cls(record.exporter, record.opset, record.name, Capture(record.capture))

    def cell(self, program: int, shapes: Shapes = Shapes.STATIC) -> Cell:
        """The cell of a program, by its number within the test."""
        case = Case(_DECLARATION, self.name, f"{self.name}[program={program}]", {})
        axes = (Dtype.FLOAT32, self.opset, Device.CPU, self.capture, self.exporter, ONNXRUNTIME, shapes)
        return Cell(case, *axes)


def record_of(outcome: Outcome) -> Record:
    nodeid = f"{TESTS}::TestONNXRuntime::{outcome.cell.case.name}"
    return outcome.onto(blank_record(outcome.cell, TESTS, nodeid, worker="main"))
