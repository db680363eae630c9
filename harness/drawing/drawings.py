"""A `Drawing`: what a report shows of the program, the exported graphs and the errors of a case. Independent of torch.

A run keeps its drawings in its folder `drawings/`, one file for each case.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from onnx_parity.harness.record import Kind, Record

FOLDER = "drawings"


class DrawnNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node of an exported graph."""

    op: str
    #: The version that defines the operator; 0 if onnx does not have it.
    since: int
    inputs: list[str]
    outputs: list[str]
    domain: str = ""
    attributes: list[tuple[str, str]] = []
    #: The ATen operator that it was written for, the user's line, and the module; empty if the exporter does not tell.
    operator: str = ""
    where: str = ""
    module: str = ""
    #: The bodies of a branch or of a loop, by attribute.
    bodies: dict[str, DrawnGraph] = {}


class DrawnGraph(msgspec.Struct, frozen=True, omit_defaults=True):
    inputs: list[str]
    outputs: list[str]
    nodes: list[DrawnNode]
    #: The names of weights and other constants.
    constants: list[str] = []
    #: `Float(2, 3)`, by the name of the value.
    types: dict[str, str] = {}


class AtOpset(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the export gave at an opset: the number of a graph in `Drawing.graphs`, or an error."""

    opset: int
    graph: int = -1
    error: str = ""
    #: Empty for the exporter of the cell that was drawn.
    exporter: str = ""


class ErrorInside(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error of a value inside a model, for the inputs for which the cell was drawn."""

    diverges: bool
    #: The error divided by the tolerance; None if it is infinite.
    growth: float | None
    detail: str = ""


class ErrorPicture(msgspec.Struct, frozen=True, omit_defaults=True):
    """The errors of one output."""

    name: str
    type: str
    #: The numbers of elements: exactly equal, up to 1 unit in the last place, up to 2, up to 4 and so on.
    ulps: list[int]
    #: The elements of which one of both values is not a number or infinite and the other is not.
    not_finite: int = 0
    #: The largest error divided by the tolerance, by rows and columns of the output; each stands for several elements
    #: if the output is large. At most 1 is right.
    map: list[list[float]] = []
    #: How many elements of the last axis, and of all others together, one number of the map stands for.
    pooled: tuple[int, int] = (1, 1)


class Drawing(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: Kind
    family: str
    name: str
    case: str
    #: The cell that was drawn: the case at one point of the axes. Its other opsets were exported too, and its opset by
    #: the other exporters of the run.
    cell: str
    opset: int
    exporter: str = ""
    #: The hash of the declaration's source.
    source: str = ""
    #: The recorded program as text; empty if the exporter is another one, which does not tell.
    program: str = ""
    opsets: list[AtOpset] = []
    graphs: list[DrawnGraph] = []
    #: By the name of a value in the graph of `opset`.
    values: dict[str, ErrorInside] = {}
    errors: list[ErrorPicture] = []
    #: Why something of this is missing.
    missing: str = ""

    @property
    def key(self) -> tuple[Kind, str, str, str]:
        return self.kind, self.family, self.name, self.case


def blank_drawing(record: Record, missing: str = "") -> Drawing:
    return Drawing(
        record.kind, record.family, record.name, record.case, record.cell, record.opset, record.exporter, record.source,
        missing=missing,
    )  # fmt: skip


def keep_drawing(file: Path, drawing: Drawing) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}-{os.getpid()}")
    aside.write_bytes(msgspec.json.encode(drawing))
    os.replace(aside, file)


def drawings_of(run: Path) -> Iterator[Drawing]:
    """The drawings that the run has. Files that cannot be read as such are left out; they can be drawn again."""
    folder = run / FOLDER
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            yield msgspec.json.decode(file.read_bytes(), type=Drawing)
        except (OSError, msgspec.DecodeError):
            continue
