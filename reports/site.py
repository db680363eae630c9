"""The HTML report of a run: a folder of static pages, rendered from templates, that works from `file://`."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import WRONG, Kind, RunInfo, Status
from onnx_parity.harness.store import read_info, read_records
from onnx_parity.reports import wording
from onnx_parity.reports.arrangement import FOLDERS, Case, Declaration, arrange
from onnx_parity.reports.case_page import view_case
from onnx_parity.reports.coverage import Grid, Reason, RowHead, build_grid
from onnx_parity.reports.divergence import measure_divergence
from onnx_parity.reports.groups import group_outcomes
from onnx_parity.reports.outcomes import FACES, State, in_words
from onnx_parity.reports.publish import GENERATOR, publish
from onnx_parity.reports.summary import in_seconds, summarize
from onnx_parity.reports.traced import aten_operators, onnx_operators

_HERE = Path(__file__).parent
#: The first page lists at most this many groups of failures. Its grids link to all of them.
MOST_FAILURES = 200
NOT_PASSES = frozenset(Status) - {Status.PASSED}


def write_report(run: Path, out: Path) -> Path:
    """Write the report of the run in folder `run` to the folder `out` and return the path of its index.html.

    The report appears in `out` when it is complete, and replaces an earlier report there. Other files are not changed.
    """
    info = read_info(run)
    declarations = arrange(read_records(run))
    with publish(out) as folder:
        _Site(folder, info, declarations).write()
    return out / "index.html"


@dataclass(frozen=True, slots=True)
class TitledGrid:
    """A grid with its title and its anchor on the page."""

    anchor: str
    title: str
    #: What a row stands for, in the singular: `operator`.
    noun: str
    grid: Grid


class _Site:
    def __init__(self, folder: Path, info: RunInfo, declarations: Sequence[Declaration]) -> None:
        self.folder = folder
        self.declarations = declarations
        self.opsets = sorted({record.opset for d in declarations for case in d.cases for record in case.records})
        self.environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            finalize=_fit_for_html,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.globals.update(
            {"FACES": FACES, "State": State, "generator": GENERATOR, "info": info, "in_words": in_words}
        )
        self.environment.filters.update(
            {
                "duration": wording.duration,
                "error_size": wording.error_size,
                "headroom": wording.headroom,
                "instant": wording.instant,
                "nan_last": _nan_last,
                "opset_ranges": wording.opset_ranges,
                "plain_number": wording.plain_number,
                "plural": wording.plural,
                "reason_table": _reason_table,
                "thousands": wording.thousands,
                "ulps": wording.ulps,
            }
        )
        self.info = info

    def write(self) -> None:
        shutil.copytree(_HERE / "static", self.folder / "static")
        for subfolder in ("cases", *FOLDERS.values()):
            (self.folder / subfolder).mkdir()
        self._write_index()
        self._render("divergence.html", "divergence.html", {"divergence": measure_divergence(self.declarations)})
        self._render(
            "traced.html",
            "traced.html",
            {"aten": aten_operators(self.declarations), "onnx": onnx_operators(self.declarations)},
        )
        for declaration in self.declarations:
            if len(declaration.cases) > 1:
                self._write_declaration(declaration)
            for case in declaration.cases:
                self._write_case(declaration, case)

    def _write_index(self) -> None:
        summary = summarize(self.info, self.declarations)
        cases = (case for declaration in self.declarations for case in declaration.cases)
        failures = group_outcomes(cases, WRONG)
        grids = [
            TitledGrid(folder, folder.capitalize(), folder[:-1], self._declarations_grid(kind))
            for kind, folder in FOLDERS.items()
        ]
        self._render(
            "index.html",
            "index.html",
            {
                "summary": summary,
                "pace_note": in_seconds(summary.pace) if summary.pace else "",
                "failures": failures[:MOST_FAILURES],
                "unlisted_failures": max(0, len(failures) - MOST_FAILURES),
                "grids": [grid for grid in grids if grid.grid.rows],
            },
        )

    def _write_declaration(self, declaration: Declaration) -> None:
        heads = [RowHead(case.label, "", case.page, f"{case.page}#opset-", case.records) for case in declaration.cases]
        self._render(
            "declaration.html",
            declaration.page,
            {
                "declaration": declaration,
                "first": declaration.cases[0].records[0],
                "titled": TitledGrid("cases", "Cases", "case", build_grid(heads, self.opsets)),
                # A missing device is missing for all cases, and is shown in the grid.
                "groups": group_outcomes(declaration.cases, NOT_PASSES - {Status.ABSENT}),
            },
        )

    def _write_case(self, declaration: Declaration, case: Case) -> None:
        view = view_case(case)
        self._render(
            "case.html",
            case.page,
            {
                "declaration": declaration,
                "case": case,
                "first": case.records[0],
                "view": view,
                "titled": TitledGrid("variants", "Cells", "variant", view.grid),
                "groups": group_outcomes([case], NOT_PASSES),
            },
        )

    def _declarations_grid(self, kind: Kind) -> Grid:
        return build_grid(
            [_declaration_head(declaration) for declaration in self.declarations if declaration.kind is kind],
            self.opsets,
        )

    def _render(self, template: str, page: str, context: Mapping[str, object]) -> None:
        root = "../" * page.count("/")
        text = self.environment.get_template(template).render(context, root=root, page=page)
        (self.folder / page).write_text(text, encoding="utf-8")


def _fit_for_html(value: object) -> object:
    """Replace characters that HTML forbids. Jinja escapes only those that are HTML's syntax."""
    return markup_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _nan_last(value: float | None) -> float:
    """The sorting key of an error in a column. None, which represents NaN in a record, comes after every number."""
    return math.inf if value is None else value


def _reason_table(reasons: Iterable[Reason]) -> list[list[str]]:
    """The reasons of a grid for the script of the page: state, glyph, where, who, text."""
    return [[r.state, FACES[r.state].glyph, r.where, r.who, r.text] for r in reasons]


def _declaration_head(declaration: Declaration) -> RowHead:
    aten = _distinct_aten(declaration.cases)
    return RowHead(
        label=declaration.name,
        group=declaration.family,
        page=declaration.page,
        anchor=f"{declaration.page}#opset-",
        records=declaration.records,
        # Models trace hundreds of operators. The page of traced operators shows which models trace which.
        search=" ".join(aten) if declaration.kind is Kind.OPERATOR else "",
    )


def _distinct_aten(cases: Iterable[Case]) -> list[str]:
    return list(dict.fromkeys(name for case in cases for record in case.records for name in record.aten))
