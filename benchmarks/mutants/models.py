"""The models that this process exports, as hashes: a cell whose model a fault leaves as it is cannot notice it."""

from __future__ import annotations

import hashlib

from onnx_parity.harness.cases.draws import DrawnCase
from onnx_parity.harness.cases.program import InputSet, build
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.subjects.exporter_interface import Captured, Request
from onnx_parity.harness.subjects.exporters import EXPORTERS


class Models:
    """Exports the programs of cells. Those of a program should come one after the other: they share its captures."""

    def __init__(self) -> None:
        self._program: object = None
        self._captures: dict[object, Captured] = {}

    def hash_of(self, cell: Cell) -> str:
        """The hash of a cell's model; empty if it cannot be exported, or has many, of programs that are drawn."""
        if isinstance(cell.case, DrawnCase):
            return ""
        if self._program != (cell.case, cell.dtype):
            self._program = (cell.case, cell.dtype)
            self._captures.clear()
        key = (cell.capture, cell.shapes)
        try:
            if key not in self._captures:
                self._captures[key] = captured_of(cell)
            model = self._captures[key].deliver(cell.opset, None)
        except Exception:  # noqa: BLE001  An exporter with a fault may raise anything, and so may a user's program.
            return ""
        assert isinstance(model, bytes), "a model is written to a file only if a folder is given"
        return hashlib.sha256(model).hexdigest()


def captured_of(cell: Cell) -> Captured:
    program = build(cell.case, cell.dtype, cell.device, 0)
    dynamic = program.declaration.asked(cell.shapes)
    request = Request(program.module, program.inputs(InputSet()), program.input_names, dynamic, cell.capture)
    return EXPORTERS[cell.exporter].capture(request)
