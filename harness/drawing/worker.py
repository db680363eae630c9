"""The process that draws: `python -m onnx_parity.harness.drawing.worker SEED PLACE... DESCRIPTOR`.

It is a process of its own because a runtime may end it. It answers each task once the file of the drawing is written.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import msgspec

from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.drawing.draw import draw
from onnx_parity.harness.drawing.drawings import Drawing, blank_drawing, keep_drawing
from onnx_parity.harness.drawing.tasks import Task
from onnx_parity.harness.matrix.lookup import NoSuchCellError, find_cell
from onnx_parity.harness.running.channel import to_owner


def main(seed: int, places: Sequence[Path], descriptor: int) -> None:
    warnings.simplefilter("ignore")
    with to_owner(descriptor) as channel:
        while True:
            task = msgspec.json.decode(channel.receive(), type=Task)
            keep_drawing(Path(task.file), _draw_task(task, seed, places))
            channel.send(b"drawn")


def _draw_task(task: Task, seed: int, places: Sequence[Path]) -> Drawing:
    try:
        # Its file is one that the tasks were checked for; that of the node id may be another.
        cell, *others = (find_cell(f"{task.record.file}::{each.cell}", places) for each in (task.record, *task.others))
    except (NoSuchCellError, DeclarationError, ImportError) as error:
        return blank_drawing(task.record, f"its declaration was not found: {error}")
    return draw(task.record, cell, task.opsets, seed, others)


if __name__ == "__main__":
    main(int(sys.argv[1]), [Path(each) for each in sys.argv[2:-1]], int(sys.argv[-1]))
