"""The report as files: no links to elsewhere, data that say what the records do, light and quick to write."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onnx_parity.harness import store
from onnx_parity.harness.record import Blame, Metrics, Record, RunEnd, RunInfo, Stage, Status
from onnx_parity.reports.arrangement import variant
from onnx_parity.reports.outcomes import STATE_NUMBERS
from onnx_parity.reports.pages.case_data import MOST_MESSAGES
from onnx_parity.reports.pieces import read_piece
from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.synthetic_run import (
    OPERATORS,
    OPSETS,
    PASSING,
    Made,
    info,
    records,
)

#: Control characters and noncharacters, which HTML forbids.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")

FAILED = replace(PASSING, status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.EXPORTER, reason="off by one")


class Page(HTMLParser):
    """A page's links, tags and text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(given.get("src") or "")
        self.links += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_data(self, data: str) -> None:
        self.text += data


class Report:
    """A written report: its pages by their names, and its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = {path.name: Page(path) for path in folder.glob("*.html")}

    def data(self, name: str) -> Any:
        return read_piece((self.folder / "data" / f"{name}.js").read_text(encoding="ascii"))

    @property
    def declarations(self) -> list[Any]:
        pieces = sorted((self.folder / "data").glob("cases-*.js"))
        return [each for piece in pieces for each in self.data(piece.stem)]


def report_of(tmp_path: Path, cells: list[Record], run_info: RunInfo | None = None) -> Report:
    return Report(write_report(write_run(tmp_path / "runs", cells, run_info or info()), tmp_path / "report").parent)


def test_every_link_leads_to_a_file_of_the_report(tmp_path: Path) -> None:
    report = report_of(tmp_path, list(records(OPERATORS[:12])))
    followed = 0
    for path, page in report.pages.items():
        for link in page.links:
            if link.startswith(("https://github.com/", "#")):
                continue  # The link of an expectation, as its record has it; and the link past the navigation.
            target = urlsplit(link)
            assert not target.scheme + target.netloc, f"{path} leads outside: {link}"
            assert (report.folder / target.path).is_file(), f"{path}: {link}"
            followed += 1
    assert followed > 30


def test_the_data_of_a_case_say_what_its_records_do(tmp_path: Path) -> None:
    cells = list(records([made for made in OPERATORS if made.name in ("topk", "avg_pool2d")]))
    cells[0] = replace(cells[0], options=("--parity-seed=3", "--parity-memory-limit=900"))
    found = {}
    for declaration in report_of(tmp_path, cells).declarations:
        for case in declaration["cases"]:
            for at, opset in enumerate(case["opset"]):
                cell, node, whole, options = case["ids"][case["id"][at]]
                cell, node = (text.replace("-opset{}-", f"-opset{opset}-") if whole else text for text in (cell, node))
                found[cell] = (
                    declaration["name"], case["case"], tuple(case["variants"][case["variant"][at]]), opset, node,
                    options, case["status"][at], case["reasons"][case["reason"][at]][0],
                    case["messages"][case["message"][at]], case["emissions"][case["emission"][at]][1],
                )  # fmt: skip
    assert found == {
        record.cell: (
            record.name, record.case, variant(record), record.opset, record.nodeid, " ".join(record.options),
            STATE_NUMBERS[record.status], record.reason, record.message, record.nodes,
        )
        for record in cells
    }  # fmt: skip


def test_metrics_and_times_are_in_the_data(tmp_path: Path) -> None:
    metrics = Metrics(1e-7, None, 0.5, 1.0, 2.0, 12.0, 1.2e-6, 0, (0, 1), 1.0000001, 1.0)
    cell = replace(PASSING, metrics=metrics, seconds={"export": 0.012345, "run": 0.00001})
    (case,) = report_of(tmp_path, [cell]).declarations[0]["cases"]
    assert msgspec.convert(case["metrics"][0], Metrics) == metrics
    assert case["microseconds"] == {"export": [12000], "run": [10]}


def test_since_is_told_by_dtype_and_what_did_not_run_is_not_what_failed(tmp_path: Path) -> None:
    """bfloat16 ran at few opsets and was right at each: that does not make the row right in part."""
    right = [replace(PASSING, cell=f"f{opset}", opset=opset) for opset in range(7, 19)]
    few = [replace(PASSING, cell=f"b{opset}", opset=opset, dtype="bfloat16") for opset in (13, 18)]
    late = [
        replace(PASSING, cell=f"h{opset}", opset=opset, dtype="float16", status=status, stage=Stage.EXPORT)
        for opset, status in ((7, Status.UNSUPPORTED), (11, Status.UNSUPPORTED), (13, Status.PASSED))
    ]
    never = [replace(PASSING, cell="c", dtype="complex64", status=Status.ABSENT)]
    (row,) = report_of(tmp_path, [*right, *few, *late, *never]).data("coverage")["rows"]
    assert row["since"] == {
        "dtype": "float32", "whole": 7, "partly": 7, "ran": True,
        "others": [["complex64", "did not run"], ["float16", "13"]],
    }  # fmt: skip


def test_since_is_that_of_this_projects_exporter_and_others_are_told_apart(tmp_path: Path) -> None:
    ours = [replace(PASSING, cell=f"o{opset}", opset=opset) for opset in (9, 13, 18)]
    theirs = [
        replace(PASSING, cell=f"t{opset}", opset=opset, exporter="torch_dynamo", status=status, stage=Stage.EXPORT)
        for opset, status in ((9, Status.UNSUPPORTED), (13, Status.FAILED), (18, Status.PASSED), (19, Status.PASSED))
    ]
    alike = [replace(cell, cell=f"a{cell.opset}", exporter="torch_script") for cell in ours]
    (row,) = report_of(tmp_path, [*theirs, *ours, *alike]).data("coverage")["rows"]
    assert row["since"] == {
        "dtype": "float32", "whole": 9, "partly": 9, "ran": True, "others": [["torch_dynamo", "18"]],
    }  # fmt: skip


def test_an_empty_run(tmp_path: Path) -> None:
    report = report_of(tmp_path, [], RunInfo(id="empty", started="", seed=1, tier=""))
    assert "Nothing ran." in report.pages["index.html"].text
    assert "No cell of this run was compared." in report.pages["divergence.html"].text
    assert report.data("coverage")["rows"] == report.declarations == []


def test_a_run_of_failures_alone_lists_them_and_stays_light(tmp_path: Path) -> None:
    cells = [
        replace(FAILED, cell=f"{case}-{opset}", case=f"elu[{case}]", opset=opset, message=f"{opset}" * 500)
        for case in range(210)
        for opset in OPSETS[:3]
    ]
    (tmp_path / "alike").mkdir()
    text = report_of(tmp_path / "alike", cells).pages["index.html"].text
    assert "630 cells, opsets 7–9, float32" in text
    assert "and 202 more cases" in text
    # A cause for each case: words that are no numbers differ.
    report = report_of(
        tmp_path, [replace(cell, reason=f"off by {chr(0x4E00 + at // 3)}") for at, cell in enumerate(cells)]
    )
    index = report.pages["index.html"]
    assert "630 of the 630 cells that ran are wrong." in index.text
    assert "195 more" in index.text
    assert "10 more are not listed here" in index.text
    assert (report.folder / "index.html").stat().st_size < 500_000


def test_a_case_keeps_some_messages_and_counts_the_others(tmp_path: Path) -> None:
    cells = [replace(FAILED, cell=str(n), dtype=f"d{n}", message=f"message {n}") for n in range(MOST_MESSAGES + 7)]
    (case,) = report_of(tmp_path, cells).declarations[0]["cases"]
    # The first message is that of a cell without one, if there is any.
    assert (len(case["messages"]), case["more_messages"]) == (MOST_MESSAGES + 1, 7)


def test_names_and_messages_are_text_and_never_markup(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;"
    cell = replace(
        FAILED,
        cell=f"f[{hostile}]",
        case=f"f[{hostile}]",
        name=hostile,
        family=hostile,
        nodeid=f"op_cases/f.py::f[{hostile}]",
        dtype=hostile,
        reason=hostile,
        message=hostile,
        link="javascript:alert(1)",
        aten=(hostile,),
    )
    report = report_of(tmp_path, [cell], replace(info(), missing={hostile: hostile}, tier=hostile, argv=(hostile,)))
    for path, page in report.pages.items():
        assert all(script.startswith("static/") for script in page.scripts), path
        assert page.tags.count("img") == 1, path
        assert not [link for link in page.links if link.startswith("javascript:")], path
    assert hostile in report.pages["index.html"].text
    (declaration,) = report.declarations
    assert declaration["name"] == hostile
    assert declaration["cases"][0]["reasons"] == [[hostile, "", ""]]
    for script in (report.folder / "data").iterdir():
        assert re.fullmatch(r'piece\("[a-z0-9-]+","[A-Za-z0-9+/=]*"\);\n', script.read_text()), script


#: Syntax of HTML, of attributes and of scripts, control characters and noncharacters, among any text.
_PIECES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["</script>", "<img src=x>", '"', "'", "&#0;", "-->", "]]>", "\0", "\x1b[31m", "\x85", "\ufffe", "\n"]
    ),
)
_TEXTS = st.lists(_PIECES, max_size=5).map("".join)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(*[_TEXTS] * 8))
def test_pages_have_the_same_structure_whatever_their_texts_hold(
    tmp_path_factory: pytest.TempPathFactory, texts: tuple[str, ...]
) -> None:
    name, family, dtype, reason, message, aten, file, tier = texts

    def tags(fill: str) -> list[list[str]]:
        cell = replace(
            FAILED,
            case=f"case {fill or name}",
            name=f"name {fill or name}",
            family=f"family {fill or family}",
            dtype=f"dtype {fill or dtype}",
            reason=f"reason {fill or reason}",
            message=f"message {fill or message}",
            aten=(f"aten {fill or aten}",),
            file=f"file {fill or file}",
        )
        report = report_of(tmp_path_factory.mktemp("site"), [cell], replace(info(), tier=f"tier {fill or tier}"))
        for page in report.pages.values():
            assert not _FORBIDDEN.search(page.source)
        assert len(report.declarations) == 1
        return sorted(page.tags for page in report.pages.values())

    assert tags("") == tags("x")


@pytest.mark.slow
def test_twenty_thousand_cells_take_seconds_and_few_files(tmp_path: Path) -> None:
    many = [Made("family", f"operator_{number}", (("Relu", 6),)) for number in range(400)]
    opsets = range(7, 29)
    cells = [*records(many, opsets=opsets), *records(many[:60], dtypes=("float16",), opsets=opsets)]
    assert len(cells) > 20_000
    run = write_run(tmp_path, cells)
    began = time.process_time()
    folder = write_report(run, tmp_path / "report").parent
    assert time.process_time() - began < 10  # 2 s on the machine where this was written.
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) < 60
    assert sum(path.stat().st_size for path in files) < 3_000_000
    assert len(Report(folder).data("coverage")["rows"]) == 400


def test_a_run_that_is_read_from_its_columns_has_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = list(records(OPERATORS[:6]))
    end = RunEnd("2026-01-31T10:16:00+00:00", whole=True)
    run = write_run(tmp_path / "runs", cells, info(), end)
    of_lines = write_report(run, tmp_path / "lines").parent
    monkeypatch.setattr(store, "_WORTH_COLUMNS", 0)
    of_columns = write_report(run, tmp_path / "columns").parent
    assert (run / "records.parquet").is_file()
    one, other = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (of_lines, of_columns)
    )
    assert one == other
