"""Arranges records by declaration and case, and names the page of each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2s

from onnx_parity.harness.record import Kind, Record
from onnx_parity.reports.wording import natural

FOLDERS = {Kind.OPERATOR: "operators", Kind.MODEL: "models"}


@dataclass(frozen=True, slots=True)
class Case:
    """A case and all its cells, ordered by their axes and opset. `page` is relative to the report's folder."""

    label: str
    records: tuple[Record, ...]
    page: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared operator or model with its cases. If there is only one case, `page` is the page of that case."""

    kind: Kind
    family: str
    name: str
    cases: tuple[Case, ...]
    page: str

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for case in self.cases for record in case.records)


def arrange(records: Iterable[Record]) -> tuple[Declaration, ...]:
    """Declarations by kind, family and name; cases and cells in natural order."""
    declared: defaultdict[tuple[Kind, str, str], defaultdict[str, list[Record]]]
    declared = defaultdict(lambda: defaultdict(list))
    for record in records:
        declared[record.kind, record.family, record.name][record.case].append(record)
    return tuple(
        _declaration(*key, declared[key])
        for key in sorted(declared, key=lambda key: (key[0] != Kind.OPERATOR, key[1], natural(key[2])))
    )


def _declaration(kind: Kind, family: str, name: str, by_case: dict[str, list[Record]]) -> Declaration:
    cases = tuple(
        Case(label, tuple(sorted(by_case[label], key=_axes_then_opset)), page_name("cases", label, kind, family, name))
        for label in sorted(by_case, key=natural)
    )
    page = cases[0].page if len(cases) == 1 else page_name(FOLDERS[kind], name, kind, family)
    return Declaration(kind, family, name, cases, page)


def _axes_then_opset(record: Record) -> tuple[object, ...]:
    return (variant(record), record.opset, record.cell)


def variant(record: Record) -> tuple[str, ...]:
    """The values of a cell on every axis except the opset."""
    return (record.dtype, record.device, record.shapes, record.capture, record.exporter, record.runtime)


def page_name(folder: str, label: str, *rest_of_identity: str) -> str:
    """A file name that is valid in any file system and URL, and the same in every run.

    The digest distinguishes names with the same readable part: `f[x/y]` and `f[x=y]`, or `Relu` and `relu`.
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", label).strip("-.")[:60]
    digest = blake2s("\0".join((label, *rest_of_identity)).encode(), digest_size=4)
    return f"{folder}/{readable or 'case'}-{digest.hexdigest()}.html"
