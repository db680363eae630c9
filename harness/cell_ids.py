"""What the id of a cell says of its place on the axes. It is read from its end: a label may contain anything."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from onnx_parity.harness.axes import PARITY, Shapes
from onnx_parity.harness.record import Record

_ID = re.compile(
    r".*-(?P<dtype>[a-z0-9]+)-opset(?P<opset>\d+)-(?P<device>[a-z]+)-(?P<capture>[a-z_]+)"
    r"(?:\+(?P<transforms>[^-]+))?-(?P<runtime>[^-]+)"
    rf"(?:-(?!{Shapes.DYNAMIC}$)(?P<exporter>[^-]+))?(?P<dynamic>-{Shapes.DYNAMIC})?"
)


class CellPoint(msgspec.Struct, frozen=True):
    """The place of a cell on the axes. A record may name another runtime, where that of the cell had no kernel."""

    opset: int
    dtype: str
    device: str
    capture: str
    #: The chain of transformations, as the option names it; empty for none.
    transforms: str
    runtime: str
    exporter: str
    shapes: str


@lru_cache(maxsize=4096)
def point_of(cell: str) -> CellPoint:
    found = _ID.fullmatch(cell)
    assert found, f"{cell} is not a cell's id"
    return CellPoint(
        int(found["opset"]),
        found["dtype"],
        found["device"],
        found["capture"],
        found["transforms"] or "",
        found["runtime"],
        found["exporter"] or PARITY,
        Shapes.DYNAMIC if found["dynamic"] else Shapes.STATIC,
    )


def runtime_asked(record: Record) -> str:
    """The runtime that a record's cell asked for. The record may name another one, where that had no kernel."""
    found = _ID.fullmatch(record.cell)
    # The name of a cell may be anything in a record that something else has written.
    return found["runtime"] if found else record.runtime
