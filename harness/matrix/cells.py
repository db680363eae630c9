"""Cells: the points of the matrix, their ids, and which of them a selection contains.

An id reads `case-dtype-opset-device-capture-runtime`, then `-exporter` where it is not this project's own, then
`-dynamic` where axes are symbolic. Transformations follow the capture, in their order:

    avg_pool2d[ceil_mode=True]-float32-opset9-cpu-trace-onnxruntime
    avg_pool2d[ceil_mode=True]-float32-opset18-cpu-trace-onnxruntime-torch_dynamo-dynamic
    avg_pool2d[ceil_mode=True]-float32-opset18-cpu-trace+onnxslim+float16-onnxruntime

`pytest -k "avg_pool2d and ceil_mode and opset9"` selects by parts of the id. Opsets need no padding: those with one
digit are 7, 8 and 9, and no opset with two digits begins with these.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from onnx_parity.harness.axes import (
    FEW_OPSETS,
    FIRST_BFLOAT16,
    FLOATING,
    MIDDLE_OPSET,
    ONNX_REFERENCE,
    PARITY,
    THEN,
    Breadth,
    Capture,
    Device,
    Dtype,
    Selection,
    Shapes,
    Tier,
)
from onnx_parity.harness.case import Case, Declaration
from onnx_parity.harness.cases.draws import DrawnCase, can_be_drawn
from onnx_parity.harness.matrix import named_cells
from onnx_parity.harness.project import find_project
from onnx_parity.harness.record import Kind

_DTYPES = tuple(Dtype)


@dataclass(frozen=True, eq=False)
class Cell:
    """A case at one point of the axes."""

    case: Case
    dtype: Dtype
    opset: int
    device: Device
    capture: Capture
    exporter: str
    runtime: str
    shapes: Shapes
    #: What is done to the model before it is run, in this order.
    transforms: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        exporter = "" if self.exporter == PARITY else f"-{self.exporter}"
        shapes = "" if self.shapes is Shapes.STATIC else f"-{self.shapes}"
        capture = THEN.join((self.capture, *self.transforms))
        return (
            f"{self.case.label}-{self.dtype}-opset{self.opset}-{self.device}-{capture}-{self.runtime}{exporter}{shapes}"
        )


def cells_of(
    name: str, declaration: Declaration, selection: Selection, wanted: Callable[[str], bool] = lambda label: True
) -> Iterator[Cell]:
    """The cells of a declaration's cases whose labels are wanted. Cells that share work are adjacent."""
    is_included = selection.tier.includes(declaration.tier)
    folder, by_name = declaration.file.parent, selection.opsets is None and selection.dtypes is None
    # The full tier has all of them.
    named = named_cells.read_named(folder / named_cells.SMOKE) if selection.tier is not Tier.FULL else {}
    if not is_included and not named:
        return
    costly: Mapping[str, named_cells.Named] = {}
    if selection.tier is Tier.DEFAULT and by_name and not selection.costly:
        costly = named_cells.read_named(folder / named_cells.COSTLY)
    # Of these cases no other cells are run than those that are named.
    few = named if selection.tier is Tier.SMOKE and by_name else costly
    usual_opsets = selection.opsets is None and selection.tier is not Tier.FULL
    shapes = tuple(Shapes) if declaration.dynamic else (Shapes.STATIC,)
    for number, (case, usual_dtypes) in enumerate(declaration.select(name, selection)):
        also = named.get(case.label, named_cells.NOTHING) | costly.get(case.label, named_cells.NOTHING)
        own_dtypes = usual_dtypes if is_included and case.label not in few else ()
        in_turn = _dtypes_in_turn(case, selection) if own_dtypes else ()
        dtypes = tuple(dict.fromkeys((*own_dtypes, *also.dtypes(selection), *in_turn)))
        if not dtypes or not wanted(case.label):
            continue
        for dtype, exporter, form in itertools.product(dtypes, selection.exporters, shapes):
            principal = dtype is dtypes[0] and form is Shapes.STATIC
            breadth = _breadth(number, principal)
            # Declarations begin where their names say: their places would change with the declarations before them.
            turn = zlib.crc32(name.encode()) + number + _DTYPES.index(dtype) + shapes.index(form)
            opsets: tuple[int, ...] = ()
            if dtype in own_dtypes:
                opsets = declaration.opsets(selection, breadth, turn)
                if dtype is Dtype.BFLOAT16 and breadth is Breadth.SPREAD and usual_opsets:
                    opsets = tuple(max(each, FIRST_BFLOAT16) for each in opsets)
            elif dtype in in_turn and form is Shapes.STATIC:
                opsets = (MIDDLE_OPSET,)
            opsets = tuple(dict.fromkeys((*opsets, *also.opsets(dtype, form, selection))))
            if declaration.kind is Kind.MODEL and dtype not in declaration.dtypes and selection.dtypes is None:
                # The other opsets are covered by the cases of its operators, which run in every dtype.
                opsets = tuple(opset for opset in opsets if opset in FEW_OPSETS)
            for capture in selection.captures_of(exporter):
                for opset, device, transforms, runtime in _lanes(selection, opsets, principal):
                    yield Cell(case, dtype, opset, device, capture, exporter, runtime, form, transforms)
    if selection.tier is Tier.FULL and can_be_drawn(declaration) and wanted(f"{name}[drawn]"):
        yield from _list_drawn_cells(name, declaration, selection)


def _dtypes_in_turn(case: Case, selection: Selection) -> tuple[Dtype, ...]:
    """A dtype that no one has named, which cases take in turn where the project's settings say so: what an attribute
    does may be written otherwise in each."""
    declaration = case.declaration
    if selection.tier is not Tier.DEFAULT or not (selection.opsets is None is selection.dtypes):
        return ()
    if not declaration.takes_turns or not _takes_turns(declaration.file.parent):
        return ()
    others = [dtype for dtype in FLOATING if dtype not in declaration.dtypes]
    return (others[zlib.crc32(case.label.encode()) % len(others)],)


@cache
def _takes_turns(folder: Path) -> bool:
    project = find_project(folder)
    return project.settings.dtypes_in_turn and any(folder.is_relative_to(place) for place in project.declarations)


def _breadth(number: int, principal: bool) -> Breadth:
    if not principal:
        return Breadth.SPREAD
    return Breadth.TURNING if number else Breadth.EVERY


def _list_drawn_cells(name: str, declaration: Declaration, selection: Selection) -> Iterator[Cell]:
    case = DrawnCase(declaration, name, f"{name}[drawn]", {})
    dtype = declaration.dtypes[0]
    if selection.dtypes is not None and dtype not in selection.dtypes:
        return
    for opset in FEW_OPSETS:
        if selection.opsets is None or opset in selection.opsets:
            for transforms, runtime in itertools.product(selection.transforms, selection.runtimes_at(opset)):
                yield Cell(case, dtype, opset, Device.CPU, Capture.TRACE, PARITY, runtime, Shapes.STATIC, transforms)


def _lanes(
    selection: Selection, opsets: tuple[int, ...], principal: bool
) -> Iterator[tuple[int, Device, tuple[str, ...], str]]:
    """The opsets, devices, transformations and runtimes, such that cells that run the same model are adjacent."""
    for opset in opsets:
        for device in selection.devices_at(opset, opsets):
            if device is Device.CUDA and not principal and selection.devices is None:
                continue  # The default CUDA lane is one cell for each case.
            for transforms in selection.transforms:
                for runtime in selection.runtimes_at(opset):
                    if device is Device.CPU or runtime != ONNX_REFERENCE:
                        yield opset, device, transforms, runtime
