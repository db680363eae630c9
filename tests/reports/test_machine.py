"""The report for machines: a summary as JSON and Markdown, and badges, with the same figures as the pages."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
from markdown_it import MarkdownIt
from msgspec.structs import replace

from onnx_parity.harness.record import Blame, Stage, Status
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
    many = [replace(FAILED, cell=str(n), case=f"{HOSTILE}{n}") for n in range(14)]
    folder = write_report(write_run(tmp_path, many, info()), tmp_path / "report", (), WORSE).parent
    text = (folder / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("## ❌ 14 of the 14 cells that ran are wrong.")
    assert "**regressed: fix (1)**" in text
    assert "and 4 more groups of failures" in text
    html = MarkdownIt().render(text)
    assert "<script" not in html and "href" not in html


def test_a_regression_makes_the_badge_red(tmp_path: Path) -> None:
    folder = write_report(write_run(tmp_path, [PASSING], info()), tmp_path / "report", (), WORSE).parent
    assert msgspec.json.decode((folder / "badge.json").read_bytes())["isError"]
