"""What changed since a baseline, as the gate found it: its verdict, for the page of changes."""

from __future__ import annotations

import msgspec

from onnx_parity.harness.escaping import markup_text


class Change(msgspec.Struct, frozen=True):
    """Findings about one case and dtype that differ only in their opset, and in numbers of their details."""

    #: `fail`, `warn` or `ignore`, as the policy says.
    action: str
    #: `new failure`, `fix` and the other kinds of docs/gate.md.
    kind: str
    #: The label of the case and its dtype; empty for a finding about the whole run.
    case: str
    detail: str
    cells: int
    opsets: list[int]
    file: str
    line: int
    #: The id of the first cell; empty for a finding about a case or the whole run.
    cell: str = ""


class Changes(msgspec.Struct, frozen=True):
    baseline: str
    #: `regressed: new failure (3 cells, 1 cause)`.
    headline: str
    regressed: bool
    #: `torch 2.12.1 → 2.13.0`.
    environment: list[str]
    #: Status, and the numbers of its cells in the baseline and in this run.
    counts: list[tuple[str, int, int]]
    times_compared: bool
    changes: list[Change]
    #: Status, and the numbers of cells that only the baseline has, and only this run.
    coverage: list[tuple[str, int, int]] = []
    #: What could not be decided, and why.
    undecided: list[str] = []
    #: The address of the baseline's own report, relative to this one; empty if there is none.
    report: str = ""

    def data(self) -> list[Change]:
        """For the script of the page: no text has characters that HTML forbids."""
        return [
            msgspec.structs.replace(
                each, case=markup_text(each.case), detail=markup_text(each.detail), cell=markup_text(each.cell)
            )
            for each in self.changes
        ]
