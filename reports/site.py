"""The HTML report of a run: a few static pages, and its data in pieces beside them, which work from `file://`."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import msgspec

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import WRONG, Record, RunEnd, RunInfo
from onnx_parity.harness.results.completeness import in_a_word, is_unfinished, shortcomings
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_columns, read_end, read_info, read_records
from onnx_parity.reports import pieces, wording
from onnx_parity.reports.arrangement import Declaration, arrange
from onnx_parity.reports.groups import Group, group_outcomes
from onnx_parity.reports.junit import JUnit
from onnx_parity.reports.machine import write_machine_files
from onnx_parity.reports.outcomes import FACES, STATE_NUMBERS, State, in_words
from onnx_parity.reports.pages.case_data import CaseData, case_data
from onnx_parity.reports.pages.changes import Changes
from onnx_parity.reports.pages.coverage_data import CoverageTable
from onnx_parity.reports.pages.divergence import DivergenceMeter
from onnx_parity.reports.pages.drawn import drawn_pieces
from onnx_parity.reports.pages.failures import CauseMeter
from onnx_parity.reports.pages.history import Figures, figures_of, history, keep_figures
from onnx_parity.reports.pages.names_data import Group as NameGroup
from onnx_parity.reports.pages.names_data import names_data
from onnx_parity.reports.pages.runtimes import Runtimes
from onnx_parity.reports.pages.subjects import Subjects
from onnx_parity.reports.pages.traced import Traced
from onnx_parity.reports.publish import GENERATOR, publish
from onnx_parity.reports.sources import declared_source
from onnx_parity.reports.summary import RunMeter, in_seconds, summarize
from onnx_parity.reports.templating import new_environment

_HERE = Path(__file__).parent
#: The summary lists at most this many groups of failures. The grids of the first page link to all of them.
MOST_FAILURES = 200
#: Without a baseline, at most this many other runs are named as one.
MOST_BASELINES = 5
#: A piece has the cases of as many declarations as have this many cells, or more if there would be too many pieces.
_CELLS_OF_A_PIECE, _MOST_PIECES = 1000, 64
#: From this many cells on, pieces may be more, so that each stays small.
_LARGE_RUN, _MOST_PIECES_OF_A_LARGE_RUN = 200_000, 300

#: The scripts of every page; and the pages, with the further scripts of each.
_EVERY_PAGE = ("data", "words", "table", "report")
_PAGES = {
    "index.html": ("grid", "index"),
    "case.html": ("grid", "layout", "canvas", "drawing", "case"),
    "divergence.html": ("divergence",),
    "history.html": ("history",),
    "pytorch.html": ("pytorch",),
    "traced.html": ("traced",),
    "changes.html": (),
}

#: A page that has more content with a baseline, and those that a report has only with several exporters or runtimes, or
#: with a ledger of findings.
_CHANGES, _SUBJECTS, _RUNTIMES, _FINDINGS = "changes.html", "exporters.html", "runtimes.html", "findings.html"
_NAV = (
    ("index.html", "Overview"),
    ("pytorch.html", "Coverage"),
    (_CHANGES, "Changes"),
    (_SUBJECTS, "Side by side"),
    (_RUNTIMES, "Runtimes"),
    ("divergence.html", "Divergence"),
    ("traced.html", "ATen and ONNX"),
    ("history.html", "History"),
    (_FINDINGS, "Findings"),
)


def write_report(
    run: Path,
    out: Path,
    names: Sequence[NameGroup] = (),
    changes: Changes | None = None,
    tell: Callable[[str], object] = str,
    *,
    drawings: Iterable[Mapping[str, Any]] = (),
    findings: Sequence[Mapping[str, Any]] = (),
    places: Sequence[Path] = (),
    is_served: bool = False,
) -> Path:
    """Write the report of the run in folder `run` to the folder `out` and return the path of its index.html.

    `names` are the public names whose coverage the report shows, `changes` those since a baseline.
    `tell` is called with a description of what cannot be read of the run, if anything. `drawings` are those of
    `onnx_parity.harness.drawing`, and `findings` those of a ledger. `places` are the files and folders
    of declarations whose source may be shown. A report that is served asks the server for drawings that it lacks.

    The report appears in `out` when it is complete, and replaces an earlier report there. Other files in `out` stay.
    """
    info = read_info(run)
    declarations, cells, damage = _declarations(run)
    if damage:
        tell(damage)
    with publish(out) as folder:
        site = _Site(folder, run, info, names, changes, damage)
        site.end, site.findings, site.places, site.is_served = _end_of(run), findings, places, is_served
        site.write(declarations, cells, run, out, drawings)
    return out / "index.html"


def _end_of(run: Path) -> RunEnd | None:
    try:
        return read_end(run)
    except RunStoreError:
        # What cannot be read of it is part of the damage.
        return None


def _declarations(run: Path) -> tuple[Iterator[Declaration], int, str]:
    """The declarations of a run, one at a time if it is large, the number of its cells, and what cannot be read."""
    columns = read_columns(run)
    if columns is None:
        records = read_records(run)
        return iter(arrange(records)), len(records), records.damage
    # The rows of columns are ordered by declaration.
    grouped = groupby(columns.records(), lambda record: (record.kind, record.family, record.name))
    return (arrange(each)[0] for _, each in grouped), len(columns), ""


class DeclarationData(msgspec.Struct, frozen=True):
    """A declaration with all its cells."""

    kind: str
    family: str
    name: str
    file: str
    line: int
    #: Empty if the file is not here, or is no longer as it was.
    source: str
    calls: list[str]
    cases: list[CaseData]
    #: For each case that was drawn, the number of the piece, and the place in it.
    drawings: dict[str, tuple[int, int]]


class _Site:
    def __init__(
        self, folder: Path, run: Path, info: RunInfo, names: Sequence[NameGroup], changes: Changes | None, damage: str
    ) -> None:
        """`damage`: what of the run could not be read."""
        self.folder = folder
        self.run = run
        self.names = names
        self.changes = changes
        self.info = info
        self.damage = damage
        self.environment = new_environment(
            {"FACES": FACES, "State": State, "generator": GENERATOR, "info": info, "in_words": in_words}
        )
        self.meter = RunMeter()
        self.coverage = CoverageTable()
        self.divergence = DivergenceMeter()
        self.traced = Traced()
        self.subjects = Subjects()
        self.runtimes = Runtimes()
        self.history: list[Figures] = []
        self.end: RunEnd | None = None
        self.findings: Sequence[Mapping[str, Any]] = ()
        self.places: Sequence[Path] = ()
        self.is_served = False
        #: Case to the number of the piece with its drawing, and its place there.
        self.drawn: dict[tuple[str, ...], tuple[int, int]] = {}
        self.causes = CauseMeter()
        self.junit = JUnit(info.id)
        self.failures: list[tuple[int, Group]] = []
        self.search: list[tuple[str, str, str, list[str]]] = []
        self.piece: list[DeclarationData] = []
        self.pieces = 0
        self.cells_in_piece = 0

    def write(
        self,
        declarations: Iterator[Declaration],
        cells: int,
        run: Path,
        out: Path,
        drawings: Iterable[Mapping[str, Any]],
    ) -> None:
        (self.folder / pieces.FOLDER).mkdir()
        for number, (keys, piece) in enumerate(drawn_pieces(drawings)):
            pieces.write_piece(self.folder, f"drawings-{number}", piece)
            self.drawn.update({key: (number, place) for place, key in enumerate(keys)})
        most = _MOST_PIECES if cells < _LARGE_RUN else _MOST_PIECES_OF_A_LARGE_RUN
        cells_of_a_piece = max(_CELLS_OF_A_PIECE, cells // most + 1)
        for declaration in declarations:
            self._add(declaration, cells_of_a_piece)
        self._end_piece()
        self.coverage.rows.sort(key=lambda row: (row.kind != "operator", row.family, wording.natural(row.name)))
        names, called = names_data(self.names, self.traced), self.traced.called()
        figures = figures_of(self.info, self.meter, self.divergence.close)
        keep_figures(run, figures)
        self.history = history(run, figures, out)
        for name, content in (
            ("coverage", self.coverage.data()),
            ("divergence", self.divergence.data()),
            ("traced", self.traced.data()),
            ("names", names),
            *([("called", called)] if called else []),
            ("history", self.history),
            *([("changes", self.changes.data())] if self.changes and self.changes.changes else []),
            *([("subjects", self.subjects.data())] if self.subjects.several else []),
            *([("runtimes", self.runtimes.data())] if self.runtimes.several else []),
            *([("findings", self.findings)] if self.findings else []),
            ("search", {"declarations": self.search, "names": self.traced.searched()}),
        ):
            pieces.write_piece(self.folder, name, content)
        self.junit.write(self.folder)
        self._write_pages(names)

    def _add(self, declaration: Declaration, cells_of_a_piece: int) -> None:
        records = declaration.records
        self.meter.add(declaration, records)
        self.divergence.add(declaration)
        self.traced.add(declaration, records)
        self.subjects.add(declaration, records)
        self.runtimes.add(declaration, records)
        self.causes.add(declaration)
        self.junit.add(declaration)
        self._add_failures(declaration)
        self.coverage.add(declaration, records, self.pieces)
        labels = [markup_text(case.label) for case in declaration.cases]
        self.search.append((declaration.kind, markup_text(declaration.family), markup_text(declaration.name), labels))
        self.piece.append(_declaration_data(declaration, records[0], self.drawn, self.places))
        self.cells_in_piece += len(records)
        if self.cells_in_piece >= cells_of_a_piece:
            self._end_piece()

    def _add_failures(self, declaration: Declaration) -> None:
        room = MOST_FAILURES - len(self.failures)
        found = group_outcomes(declaration.cases, WRONG)
        self.failures += [(STATE_NUMBERS[group.state], group) for group in found[:room]]

    def _end_piece(self) -> None:
        if self.piece:
            pieces.write_piece(self.folder, f"cases-{self.pieces}", self.piece)
            self.pieces += 1
            self.piece, self.cells_in_piece = [], 0

    def _baselines(self) -> list[tuple[str, str]]:
        """Runs with which this one may be compared, the newest first: what they are, and the command that does it."""
        others = [each for each in self.history if each.id != self.info.id and each.started <= self.info.started]
        # Those of the same tier first.
        others.sort(key=lambda each: (each.tier == self.info.tier, each.started), reverse=True)
        beside = self.run.resolve().parent
        return [
            (
                f"{wording.instant(each.started)}, {each.tier} tier",
                shlex.join(["parity", "report", str(self.run), "--baseline", str(beside / each.id)]),
            )
            for each in others[:MOST_BASELINES]
        ]

    def _write_pages(self, names: Sequence[Mapping[str, Any]]) -> None:
        lacking = self.end.lacking if self.end is not None and not self.end.whole else 0
        summary = summarize(self.info, self.meter, lacking, unfinished=is_unfinished(self.info, self.end))
        headline = summary.verdict
        if self.changes is not None:
            headline = f"{self.changes.headline[0].upper()}{self.changes.headline[1:]}"
        failures = [group for _, group in sorted(self.failures, key=lambda ranked: ranked[0])]
        causes = self.causes.rows()
        told = shortcomings(self.run, self.info, self.end, self.damage)
        if carried := self.meter.carried:
            cells = wording.plural(carried, "cell")
            told.append(f"{cells} did not run again: nothing on which a result depends has changed since.")
        if reused := self.meter.reused:
            cells, share = wording.plural(reused, "cell"), f"{reused / self.meter.counts.total():.0%}"
            told.append(f"{cells} ({share}) reused: all that their results depend on was the same in an earlier run.")
        kinds = list(dict.fromkeys(row.kind.value for row in self.coverage.rows))
        contexts: dict[str, dict[str, object]] = {
            "index.html": {
                "summary": summary,
                "headline": headline,
                "changes": self.changes,
                "pace_note": in_seconds(summary.pace) if summary.pace else "",
                "causes": causes,
                "unlisted_causes": self.causes.total - len(causes),
                "kinds": kinds,
                "has_calls": bool(self.traced.calls),
            },
            "pytorch.html": {"has_calls": bool(self.traced.calls)},
            "divergence.html": {"divergence": self.divergence.result()},
        }
        pages = _PAGES
        only = {status: (gone, new) for status, gone, new in self.changes.coverage} if self.changes else {}
        contexts[_CHANGES] = {"changes": self.changes, "only": only, "baselines": self._baselines()}
        if self.changes is not None and self.changes.changes:
            pages = pages | {_CHANGES: ("changes",)}
        if self.subjects.several:
            pages = pages | {_SUBJECTS: ("exporters",)}
        if self.runtimes.several:
            pages = pages | {_RUNTIMES: ("grid", "runtimes")}
        if self.findings:
            pages = pages | {_FINDINGS: ("findings",)}
        nav = [(page, label) for page, label in _NAV if page in pages]
        for page, scripts in pages.items():
            context = contexts.get(page, {})
            text = self.environment.get_template(page).render(
                context,
                nav=nav,
                page=page,
                scripts=(*_EVERY_PAGE, *scripts),
                notices=told,
                is_served=self.is_served,
            )
            (self.folder / page).write_text(text, encoding="utf-8")
        self._copy_static({*_EVERY_PAGE, *chain.from_iterable(pages.values())})
        lacks = in_a_word(self.info, self.end, self.damage)
        write_machine_files(
            self.folder, self.info, summary, self.meter, failures, names, self.changes, causes, told, lacks
        )

    def _copy_static(self, scripts: Iterable[str]) -> None:
        static = self.folder / "static"
        static.mkdir()
        for name in ("report.css", "icon.svg", *(f"{script}.js" for script in scripts)):
            shutil.copyfile(_HERE / "static" / name, static / name)


def _declaration_data(
    declaration: Declaration,
    first: Record,
    drawn: Mapping[tuple[str, ...], tuple[int, int]],
    places: Sequence[Path],
) -> DeclarationData:
    calls = dict.fromkeys(name for case in declaration.cases for record in case.records for name in record.calls)
    return DeclarationData(
        declaration.kind,
        markup_text(declaration.family),
        markup_text(declaration.name),
        markup_text(first.file),
        first.line,
        declared_source(first, places),
        [markup_text(name) for name in calls],
        [case_data(case) for case in declaration.cases],
        {
            case.label: drawn[key]
            for case in declaration.cases
            if (key := (declaration.kind.value, declaration.family, declaration.name, case.label)) in drawn
        },
    )
