"""The report for machines: a summary as JSON and Markdown, and badges, with the same figures as the pages."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import escape
from pathlib import Path

import msgspec
from markdown_it import MarkdownIt
from msgspec.structs import replace

from onnx_parity.harness.record import Blame, RunEnd, RunInfo, Stage, Status
from onnx_parity.harness.results.completeness import RESUME
from onnx_parity.reports.pages.changes import Changes
from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.synthetic_run import PASSING, info

HOSTILE = "`</text><script>alert(1)</script>| [a](javascript:b)"
FAILED = replace(
    PASSING, cell="f", case=HOSTILE, status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.EXPORTER, reason=HOSTILE
)
WORSE = Changes("before", "regressed: fix (1)", True, [], [("passed", 1, 1)], True, [])


def test_the_figures_are_those_of_the_run(tmp_path: Path) -> None:
    folder = write_report(write_run(tmp_path, [PASSING, FAILED], info()), tmp_path / "report").parent
    summary = msgspec.json.decode((folder / "summary.json").read_bytes())
    assert (summary["schema_version"], summary["counts"], summary["wrong"]) == (1, {"failed": 1, "passed": 1}, True)
    assert [group["case"] for group in summary["failures"]] == [HOSTILE]
    badge = msgspec.json.decode((folder / "badge.json").read_bytes())
    assert (badge["schemaVersion"], badge["message"], badge["isError"]) == (1, "1 of 2 passed", True)
    picture = ET.parse(folder / "badge.svg").getroot()
    assert picture.get("aria-label") == "parity: 1 of 2 passed"


def test_the_markdown_is_short_and_holds_no_markup_of_a_record(tmp_path: Path) -> None:
    many = [replace(FAILED, cell=str(n), case=f"{HOSTILE}{n}", reason=HOSTILE + "x" * n) for n in range(14)]
    folder = write_report(write_run(tmp_path, many, info()), tmp_path / "report", (), WORSE).parent
    text = (folder / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("## ❌ 14 of the 14 cells that ran are wrong.")
    assert "**regressed: fix (1)**" in text
    assert "and 4 more causes of failures" in text
    html = MarkdownIt().render(text)
    assert "<script" not in html and "href" not in html


def test_a_regression_makes_the_badge_red(tmp_path: Path) -> None:
    folder = write_report(write_run(tmp_path, [PASSING], info()), tmp_path / "report", (), WORSE).parent
    assert msgspec.json.decode((folder / "badge.json").read_bytes())["isError"]


def test_the_badge_of_a_run_that_lacks_cells_says_so(tmp_path: Path) -> None:
    def told(name: str, run_info: RunInfo, end: RunEnd | None) -> tuple[str, str, str]:
        """What the badge, its picture and the heading of the Markdown say."""
        folder = write_report(write_run(tmp_path / name, [PASSING], run_info, end), tmp_path / name / "report").parent
        badge = msgspec.json.decode((folder / "badge.json").read_bytes())
        label = str(ET.parse(folder / "badge.svg").getroot().get("aria-label"))
        assert label == f"parity: {badge['message']}" and badge["isError"] == (badge["color"] != "2e7d4f")
        return badge["message"], badge["color"], (folder / "summary.md").read_text(encoding="utf-8").split()[1]

    new = replace(info(), schema_version=2)
    whole = RunEnd("2026-01-31T10:20:00+00:00", whole=True)
    assert told("whole", new, whole) == ("1 of 1 passed", "2e7d4f", "✅")
    assert told("killed", new, None) == ("unfinished, 1 of 1 passed", "9a6700", "⚠️")
    assert told("stopped", new, replace(whole, whole=False)) == ("stopped, 1 of 1 passed", "9a6700", "⚠️")
    assert told("part", replace(new, shard="2/8"), whole) == ("shard 2/8, 1 of 1 passed", "9a6700", "⚠️")
    assert told("lost", new, replace(whole, cells=2)) == ("records lost, 1 of 1 passed", "9a6700", "⚠️")


def test_junit_has_a_test_case_for_each_case(tmp_path: Path) -> None:
    cells = [
        PASSING,
        replace(PASSING, cell="other", opset=9),
        FAILED,
        replace(FAILED, cell="c", case="crashes", status=Status.CRASHED),
        replace(PASSING, cell="a", case="absent", status=Status.ABSENT, reason="no CUDA device"),
    ]
    folder = write_report(write_run(tmp_path, cells, info()), tmp_path / "report").parent
    (suite,) = ET.parse(folder / "junit.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    by_name = {case.get("name"): [each.tag for each in case] for case in suite}
    assert by_name == {PASSING.case: [], HOSTILE: ["failure"], "crashes": ["error"], "absent": ["skipped"]}
    assert "pytest" in (suite.find(".//failure").text or "")  # type: ignore[union-attr]


def test_what_must_be_known_of_a_run_stands_first(tmp_path: Path) -> None:
    def told(run: Path) -> list[str]:
        folder = write_report(run, run / "report").parent
        page = (folder / "case.html").read_text(encoding="utf-8")
        notices = msgspec.json.decode((folder / "summary.json").read_bytes())["notices"]
        # The command that a notice ends with stands below it.
        said = [part for notice in notices for part in notice.split(RESUME)]
        assert all(escape(part, quote=False).replace("'", "&#39;") in page for part in said)
        assert page.count("data-copy=") == sum(RESUME in notice for notice in notices)
        return [notice.split(".")[0] for notice in notices]

    ended = RunEnd("2026-01-31T10:20:00+00:00", whole=True)
    new = replace(info(), schema_version=2)
    assert told(write_run(tmp_path / "whole", [PASSING], new, ended)) == []
    assert told(write_run(tmp_path / "killed", [PASSING], new)) == [
        "This run is unfinished: it was killed, or is still running"
    ]
    part = replace(new, shard="2/8")
    assert told(write_run(tmp_path / "part", [replace(PASSING, carried="before")], part, ended)) == [
        "This run is shard 2/8: `parity merge` puts it and the other shards together",
        "1 cell did not run again: nothing on which a result depends has changed since",
    ]
    damaged = write_run(tmp_path / "damaged", [PASSING], new, replace(ended, cells=2))
    told(damaged)
    page = (damaged / "report" / "index.html").read_text(encoding="utf-8")
    assert "the records of 1 of its 2 cells are lost" in page
