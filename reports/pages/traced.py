"""The operators that were really traced and exported: ATen operators and ONNX nodes, from the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import WRONG, Kind, OnnxUse, Record, Status
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.coverage import DTYPES_SINCE, aggregate
from onnx_parity.reports.outcomes import STATE_NUMBERS, Tally
from onnx_parity.reports.wording import natural

#: A row names at most this many declarations, and counts the others.
MOST_NAMED = 6


@dataclass(slots=True)
class Sightings:
    """Where an operator occurs: an ATen operator, an ONNX operator of a version, or a public function."""

    cells: int = 0
    #: Its nodes in all exported graphs; 0 for what is not exported.
    nodes: int = 0
    passed_at: set[int] = field(default_factory=set)
    wrong_at: set[int] = field(default_factory=set)
    #: The opsets at which the exporter refused a cell.
    refused_at: set[int] = field(default_factory=set)
    #: The opsets at which a cell failed as an expectation says.
    known_at: set[int] = field(default_factory=set)
    opsets: set[int] = field(default_factory=set)
    #: Kind, family and name.
    declarations: dict[tuple[Kind, str, str], None] = field(default_factory=dict)

    def states(self) -> dict[int, int]:
        """By opset, as `coverage.aggregate` decides it from statuses."""
        by_status = (
            (Status.FAILED, self.wrong_at),
            (Status.KNOWN, self.known_at),
            (Status.PASSED, self.passed_at),
            (Status.UNSUPPORTED, self.refused_at),
            (Status.ABSENT, self.opsets),
        )
        counts = {opset: Tally({status: 1 for status, seen in by_status if opset in seen}) for opset in self.opsets}
        return {opset: STATE_NUMBERS[aggregate(counts[opset])] for opset in sorted(counts)}

    def data(self) -> dict[str, Any]:
        named = list(self.declarations)
        return {
            "cells": self.cells,
            "nodes": self.nodes,
            "passed": sorted(self.passed_at),
            "wrong": sorted(self.wrong_at),
            "opsets": sorted(self.opsets),
            "by": [tuple(map(markup_text, each)) for each in named[:MOST_NAMED]],
            "more": max(0, len(named) - MOST_NAMED),
        }


#: Declarations whose cases are entries of torch's databases: `opinfo.add`, `module_database.nn.Linear`.
_DATABASES = ("opinfo", "operator_database", "module_database")
#: How the label of a case begins that is one of the models that torchvision lists. Others have declarations of their
#: own, so that torchvision's models are known by their plain names.
_TORCHVISION = "torchvision_models["


def database_entry(declaration: str) -> str:
    """The entry of torch's databases that a declaration is, by its name; empty if it is none."""
    place, _, entry = declaration.partition(".")
    return entry if place in _DATABASES else ""


class Traced:
    """Collects the sightings, declaration by declaration."""

    def __init__(self) -> None:
        self.aten: defaultdict[str, Sightings] = defaultdict(Sightings)
        #: By domain, name, and the version that applies at the opset.
        self.onnx: defaultdict[tuple[str, str, int], Sightings] = defaultdict(Sightings)
        self.calls: defaultdict[str, Sightings] = defaultdict(Sightings)
        #: By name of an ONNX operator, its version, and the dtype of the cell.
        self.types: defaultdict[tuple[str, int, str], Sightings] = defaultdict(Sightings)
        #: By entry of torch's databases of operators and modules.
        self.opinfo: defaultdict[str, Sightings] = defaultdict(Sightings)
        #: By the name of a model: that of its declaration, or `timm_models[test_vit]`, one of those that timm lists.
        self.models: defaultdict[str, Sightings] = defaultdict(Sightings)

    def add(self, declaration: Declaration, records: Sequence[Record]) -> None:
        key = (declaration.kind, declaration.family, declaration.name)
        # The cells of a declaration repeat few lists of operators.
        alike = Counter(
            (record.opset, record.status, record.dtype, record.aten, record.onnx, record.calls) for record in records
        )
        declared = self._entry(declaration)
        if declaration.kind is Kind.MODEL:
            self._add_models(declaration, key)
        for (opset, status, dtype, aten, onnx, calls), cells in alike.items():
            if declared is not None:
                _see(declared, key, opset, status, cells)
            for name in dict.fromkeys(aten):
                _see(self.aten[name], key, opset, status, cells)
            # That ONNX does not have a dtype yet is no refusal of what is called.
            is_late = status is Status.UNSUPPORTED and opset < DTYPES_SINCE.get(dtype, 0)
            for name in calls:
                _see(self.calls[name], key, opset, Status.ABSENT if is_late else status, cells)
            for version, nodes in _nodes(onnx).items():
                _see(self.onnx[version], key, opset, status, cells)
                self.onnx[version].nodes += nodes * cells
                domain, op, since = version
                if not domain:
                    _see(self.types[op, since, dtype], key, opset, status, cells)

    def _entry(self, declaration: Declaration) -> Sightings | None:
        """What is known of the entry of torch's databases that the declaration is, if it is one."""
        entry = database_entry(declaration.name)
        return self.opinfo[entry] if entry else None

    def _add_models(self, declaration: Declaration, key: tuple[Kind, str, str]) -> None:
        for case in declaration.cases:
            names = {declaration.name, case.label}
            if case.label.startswith(_TORCHVISION):
                names.add(case.label.removeprefix(_TORCHVISION).removesuffix("]"))
            for name in names:
                for record in case.records:
                    _see(self.models[name], key, record.opset, record.status, 1)

    def data(self) -> dict[str, Any]:
        return {
            "aten": [{"op": markup_text(name), **self.aten[name].data()} for name in sorted(self.aten, key=natural)],
            "onnx": [
                {
                    "op": markup_text(op),
                    "domain": markup_text(domain),
                    "since": since,
                    **self.onnx[domain, op, since].data(),
                }
                for domain, op, since in sorted(self.onnx)
            ],
        }

    def called(self) -> list[dict[str, Any]]:
        """PyTorch's public names, each with a state at the opsets at which programs that call it ran."""
        return [
            {"name": markup_text(name), **self.calls[name].data(), "states": self.calls[name].states()}
            for name in sorted(self.calls, key=_functions_first)
        ]

    def searched(self) -> list[tuple[str, str, str, str]]:
        """Names, what they are, the page that shows them, and the key of its address that filters by a name."""
        onnx = dict.fromkeys(f"{domain}::{op}" if domain else op for domain, op, _ in self.onnx)
        return [
            *((markup_text(name), "PyTorch", "pytorch.html", "q") for name in self.calls),
            *((markup_text(name), "ATen operator", "traced.html", "aten.q") for name in self.aten),
            *((markup_text(name), "ONNX operator", "traced.html", "onnx.q") for name in onnx),
        ]


def _see(seen: Sightings, declaration: tuple[Kind, str, str], opset: int, status: Status, cells: int) -> None:
    seen.cells += cells
    seen.opsets.add(opset)
    seen.declarations[declaration] = None
    if status is Status.PASSED:
        seen.passed_at.add(opset)
    elif status in WRONG:
        seen.wrong_at.add(opset)
    elif status is Status.KNOWN:
        seen.known_at.add(opset)
    elif status is not Status.ABSENT:
        seen.refused_at.add(opset)


def _nodes(uses: Sequence[OnnxUse]) -> Counter[tuple[str, str, int]]:
    counts: Counter[tuple[str, str, int]] = Counter()
    for use in uses:
        counts[use.domain, use.op, use.since_version] += use.count
    return counts


def _functions_first(name: str) -> tuple[bool, bool, list[tuple[int, str]]]:
    """A sorting key: what a user calls by name, then methods of tensors, then what Python's operators call."""
    return name.rpartition(".")[2].startswith("__"), name.startswith("torch.Tensor."), natural(name)
