"""The page of runtimes: the outcome of each model in each runtime, as `parity scoreboard` prints it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import Ending, Record
from onnx_parity.harness.results.scoreboard import GRAVE, Finding, OperatorScores, score
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.wording import shortened

#: The page lists at most this many findings, the gravest first. `parity scoreboard --all` prints the others.
MOST_FINDINGS = 2000

_NUMBERS = {ending: number for number, ending in enumerate(Ending)}


class Runtimes:
    """Collects what the runtimes made of models, declaration by declaration, where several were given the same."""

    def __init__(self) -> None:
        self._subjects: set[str] = set()
        self._totals: defaultdict[str, Counter[Ending]] = defaultdict(Counter)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._rows: list[OperatorScores] = []
        #: With kind, family and name.
        self._findings: list[tuple[tuple[str, str, str], Finding]] = []

    def add(self, declaration: Declaration, records: Sequence[Record]) -> None:
        first = records[0].ran_on
        if all(record.ran_on == first for record in records):
            return
        board = score(records)
        if len(board.subjects) < 2:
            # What one runtime has no kernel for ran on another one.
            return
        self._subjects.update(board.subjects)
        for subject in board.subjects:
            self._totals[subject].update(board.totals[subject])
            self._seconds[subject] += board.seconds[subject]
        self._rows += board.rows
        key = declaration.kind.value, markup_text(declaration.family), markup_text(declaration.name)
        self._findings += [(key, finding) for finding in board.findings]

    @property
    def several(self) -> bool:
        return bool(self._rows)

    def data(self) -> dict[str, Any]:
        subjects = sorted(self._subjects)
        gravest_first = sorted(self._findings, key=lambda found: (_NUMBERS[found[1].ending], found[1].subject))
        return {
            "subjects": [markup_text(subject) for subject in subjects],
            "endings": list(Ending),
            #: How many of the endings are grave: a wrong result, a crash or a hang.
            "grave": len(GRAVE),
            "totals": [[self._totals[subject][ending] for ending in Ending] for subject in subjects],
            "seconds": [round(self._seconds[subject], 2) for subject in subjects],
            "rows": [_row(row, subjects) for row in self._rows],
            "findings": [_finding(key, each, subjects) for key, each in gravest_first[:MOST_FINDINGS]],
            "unlisted": max(0, len(self._findings) - MOST_FINDINGS),
        }


def _row(row: OperatorScores, subjects: Sequence[str]) -> dict[str, Any]:
    """An operator or model. Under `scores`: the number of a runtime, and the cells and opsets of its endings."""
    return {
        "of": [row.kind, markup_text(row.family), markup_text(row.name)],
        "scores": [
            [subjects.index(subject), [[_NUMBERS[each], n, found.opsets[each]] for each, n in found.cells.items()]]
            for subject, found in sorted(row.scores.items())
        ],
    }


def _finding(of: tuple[str, str, str], finding: Finding, subjects: Sequence[str]) -> dict[str, Any]:
    return {
        "of": of,
        "subject": subjects.index(finding.subject),
        "ending": _NUMBERS[finding.ending],
        "case": markup_text(finding.case),
        "dtype": finding.dtype,
        "opsets": finding.opsets,
        "stage": finding.stage,
        "blame": finding.blame or "",
        "reason": shortened(finding.known or finding.reason),
        "right": finding.others_right,
        "others": finding.others,
    }
