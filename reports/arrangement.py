"""Records arranged by declaration and case, and the address of the page of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import Kind, Record
from onnx_parity.reports.wording import natural


@dataclass(frozen=True, slots=True)
class Case:
    """A case and all its cells, ordered by their axes and opset. `page` is the address of its page in the report."""

    label: str
    records: tuple[Record, ...]
    page: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared operator or model with its cases."""

    kind: Kind
    family: str
    name: str
    cases: tuple[Case, ...]

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
        Case(label, tuple(sorted(by_case[label], key=_axes_then_opset)), case_address(kind, family, name, label))
        for label in sorted(by_case, key=natural)
    )
    return Declaration(kind, family, name, cases)


def _axes_then_opset(record: Record) -> tuple[object, ...]:
    return (variant(record), record.opset, record.cell)


def variant(record: Record) -> tuple[str, ...]:
    """The values of a cell on every axis except the opset."""
    return (record.dtype, record.device, record.shapes, record.capture, record.exporter, record.ran_on)


def case_address(kind: Kind, family: str, name: str, case: str) -> str:
    """The address of a case's page: the part after `#` says what is shown, as `address` in static/data.js reads it."""
    shown = {"name": name, "family": family, "kind": kind.value, "case": case}
    return f"case.html#{urlencode({key: markup_text(value) for key, value in shown.items()})}"
