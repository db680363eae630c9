"""The lines that the terminal shows for a failed cell: the point, the failure, and the command to run it again."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_parity.harness.axes import PARITY, Shapes
from onnx_parity.harness.escaping import visible
from onnx_parity.harness.record import Record, Status

_MARKS = {Status.FAILED: "✗", Status.UNEXPECTED_PASS: "passed unexpectedly", Status.CRASHED: "crashed"}
#: At most this many lines of details are shown.
_LINES = 40


def headline(record: Record) -> str:
    """`avg_pool2d[ceil_mode=True]  float32  opset 9  cpu  trace → onnxruntime        compare ✗  exporter`."""
    through = "" if record.exporter == PARITY else f" → {record.exporter}"
    shapes = "" if record.shapes == Shapes.STATIC else f"  {record.shapes}"
    path = f"{record.capture}{through} → {record.ran_on}{shapes}"
    point = f"{record.dtype}  opset {record.opset}  {record.device}  {path}"
    ending = f"{record.stage} {_MARKS.get(record.status, record.status)}"
    blame = f"  {record.blame}" if record.blame else ""
    return f"{record.case}  {point}        {ending}{blame}"


def block(record: Record, details: Sequence[str]) -> str:
    """The headline, the details, and the command to run the cell again."""
    lines = [line for detail in details for line in detail.splitlines()]
    shown = lines[:_LINES]
    if len(lines) > _LINES:
        shown.append(f"... {len(lines) - _LINES} more lines")
    lines = [headline(record), *(f"  {line}" for line in shown), f"  again:  {record.again}"]
    return visible("\n".join(lines))
