"""A worker whose exporter dies at opset 9, hangs at 11, writes a wrong model at 13, and fails or refuses above."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence

from onnx import helper

from onnx_parity.harness.axes import PARITY
from onnx_parity.harness.comparison import worker
from onnx_parity.harness.subjects.exporters import EXPORTERS, Request
from tests.harness.fakes import FakeExporter, RefusalError, model, tensors


def from_x_to_y(op: str, opset: int, shape: Sequence[int]) -> bytes:
    return model([helper.make_node(op, ["x"], ["y"])], opset, shape)


def make(opset: int, request: Request) -> bytes:
    shape = tensors(request.inputs)[0].shape
    match opset:
        case 9:
            os.kill(os.getpid(), signal.SIGSEGV)
        case 11:
            time.sleep(600)
        case 14:
            raise RefusalError("not before opset 18")
        case 15:
            raise TypeError("an exporter's mistake\nand more of it")
        case 16:
            return from_x_to_y("Tanh", opset, (7,))
        case 17:
            return from_x_to_y("Tanh", 18, shape)
    return from_x_to_y("Sin" if opset == 13 else "Tanh", opset, shape)


if __name__ == "__main__":
    # What an exporter prints is not an answer.
    print("ready")
    EXPORTERS[PARITY] = FakeExporter(make)
    worker.main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
