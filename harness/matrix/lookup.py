"""Finds the declared cell with a given id."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from onnx_parity.harness.axes import (
    OPSETS,
    AxisError,
    Capture,
    Device,
    Dtype,
    Selection,
    Tier,
    parse_exporters,
    parse_runtimes,
)
from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.matrix.cells import Cell, cells_of

_POINT = re.compile(
    rf"-(?P<dtype>{'|'.join(Dtype)})-opset(?P<opset>\d+)-(?P<device>{'|'.join(Device)})-(?P<capture>{'|'.join(Capture)})"
    r"-(?P<rest>.+)$"
)


class NoSuchCellError(Exception):
    """No declaration makes a cell of this id. The message names the nearest that one does make."""


def find_cell(cell: str, directories: Sequence[Path]) -> Cell:
    """The cell with an id, or with a node id that ends with it, as in the `again:` line of a failure."""
    cell = cell.rpartition("::")[2]
    point = _POINT.search(cell)
    if point is None:
        raise NoSuchCellError(
            f"{cell} is not the id of a cell, such as elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime. "
            "`parity list PATTERN --cells` lists them."
        )
    selection = _selection(point)
    label = cell[: point.start()]
    sys.path.insert(0, str(Path.cwd()))
    declared = dict(_declared(directories, label.startswith))
    for name, declaration in declared.items():
        for each in cells_of(name, declaration, selection):
            if each.id == cell:
                return each
    anywhere = Selection(tier=Tier.FULL, opsets=selection.opsets)
    labels = {
        each.case.label for name, declaration in declared.items() for each in cells_of(name, declaration, anywhere)
    }
    if label in labels:
        raise NoSuchCellError(f"{label} has no cell {cell[point.start() + 1 :]}.")
    names = [name for name, _ in _declared(directories)]
    near = difflib.get_close_matches(label, [*sorted(labels), *names], n=1, cutoff=0.3)
    raise NoSuchCellError(f"there is no case {label}" + (f"; the nearest is {near[0]}." if near else "."))


def _declared(
    directories: Sequence[Path], wanted: Callable[[str], bool] | None = None
) -> Iterator[tuple[str, Declaration]]:
    for directory in directories:
        yield from declared_under(directory, wanted)


def _selection(point: re.Match[str]) -> Selection:
    """A selection that contains the cell and few others. An id ends with the runtime, an exporter, and `dynamic`."""
    if int(point["opset"]) not in OPSETS:
        raise NoSuchCellError(f"there is no opset {point['opset']} here, only {OPSETS[0]} to {OPSETS[-1]}.")
    runtime, _, exporter = point["rest"].removesuffix("-dynamic").partition("-")
    try:
        return Selection(
            tier=Tier.FULL,
            opsets=(int(point["opset"]),),
            dtypes=(Dtype(point["dtype"]),),
            devices=(Device(point["device"]),),
            runtimes=parse_runtimes(runtime),
            exporters=parse_exporters(exporter) if exporter else Selection().exporters,
            captures=(Capture(point["capture"]),),
        )
    except AxisError as error:
        raise NoSuchCellError(str(error)) from error
