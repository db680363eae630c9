"""Finds the declared cell with a given id."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from onnx_parity.harness.axes import (
    NO_TRANSFORMATION,
    OPSETS,
    THEN,
    AxisError,
    Capture,
    Device,
    Dtype,
    Selection,
    Tier,
    parse_exporters,
    parse_runtimes,
    parse_transforms,
)
from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.matrix.cells import Cell, cells_of

_POINT = re.compile(
    rf"-(?P<dtype>{'|'.join(Dtype)})-opset(?P<opset>\d+)-(?P<device>{'|'.join(Device)})-(?P<capture>{'|'.join(Capture)})"
    r"(?P<transforms>(?:\+[^-+]+)*)-(?P<rest>.+)$"
)

_EXAMPLE = "elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime"


class NoSuchCellError(Exception):
    """No declaration makes a cell of this id. The message names the nearest that one does make."""


def cell_of(cell: str, name: str, declaration: Declaration) -> Cell | None:
    """The cell of this id, if the declaration has it, in whatever tier and on whatever axes."""
    point = _POINT.search(cell)
    if point is None:
        return None
    label = cell[: point.start()]
    try:
        cells = cells_of(name, declaration, _selection(point), label.__eq__)
    except NoSuchCellError:
        return None
    return next((each for each in cells if each.id == cell), None)


def find_cell(cell: str, places: Sequence[Path]) -> Cell:
    """The cell with an id, or with a node id, such as a failure's `again:` line has.

    It is looked for in files and folders of declarations, and first in the file that a node id names.
    """
    named, _, cell = cell.rpartition("::")
    file = Path(named.partition("::")[0])
    if named and file.suffix == ".py" and file.is_file():
        places = [file, *places]
    point = _POINT.search(cell)
    if point is None:
        example = _nearest_to_a_part(cell, places)
        raise NoSuchCellError(
            f"{cell} is not the id of a cell, such as {example}. `parity list PATTERN --cells` lists them."
        )
    selection = _selection(point)
    label = cell[: point.start()]
    declared = dict(_find_declared(places, label.startswith))
    for name, declaration in declared.items():
        found = cell_of(cell, name, declaration)
        if found is not None:
            return found
    anywhere = Selection(tier=Tier.FULL, opsets=selection.opsets)
    labels = {
        each.case.label for name, declaration in declared.items() for each in cells_of(name, declaration, anywhere)
    }
    if label in labels:
        raise NoSuchCellError(f"{label} has no cell {cell[point.start() + 1 :]}.")
    names = [name for name, _ in _find_declared(places)]
    near = difflib.get_close_matches(label, [*sorted(labels), *names], n=1, cutoff=0.3)
    raise NoSuchCellError(f"there is no case {label}" + (f"; the nearest is {near[0]}." if near else "."))


def _nearest_to_a_part(part: str, places: Sequence[Path]) -> str:
    """The id of the cell that is nearest to a shortened one, of the declarations with its name."""
    named = _find_declared(places, lambda name: part.startswith(name) or name.startswith(part))
    cells = [cell.id for name, declaration in named for cell in cells_of(name, declaration, Selection())]
    return next(iter(difflib.get_close_matches(part, cells, n=1, cutoff=0.0)), _EXAMPLE)


def _find_declared(
    places: Sequence[Path], wanted: Callable[[str], bool] | None = None
) -> Iterator[tuple[str, Declaration]]:
    for place in places:
        yield from declared_under(place, wanted)


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
            transforms=parse_transforms(point["transforms"].removeprefix(THEN) or NO_TRANSFORMATION),
        )
    except AxisError as error:
        raise NoSuchCellError(str(error)) from error
