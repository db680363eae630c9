"""The scoreboard as a site: what runtimes get wrong comes first, and each cell leads to what reproduces it."""

from __future__ import annotations

import io
import json
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.conformance.entries import Entry, EntryTest, of_run
from onnx_parity.harness.conformance.submission import Result
from onnx_parity.harness.record import Blame, Stage, Status
from onnx_parity.reports.publish import ReportError
from onnx_parity.reports.scoreboard_site import write_scoreboard
from tests.harness.conformance.submissions import IDS, make_pack, submit
from tests.records import write_run
from tests.reports.browser import axe
from tests.reports.synthetic_run import PASSING, info

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "</td><script>alert(1)</script>"
ELU, ONE, DOUBLE, ABS = IDS


def entry(
    results: dict[str, Result], *, runtime: str = "fast", version: str = "1.2", started: str = "2026-01-02"
) -> Entry:
    tests = [
        EntryTest(id_, id_.partition("-")[0], 6 if "double" in id_ else 22, ["core", "full"], result, HOSTILE, "",
                  f"run-pack PACK OUT -k '{id_}'", f"tests/{id_}")
        for id_, result in results.items()
    ]  # fmt: skip
    return Entry(runtime, version, "linux", started, "pack, c 1", tests)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pack(tmp_path_factory.mktemp("packs") / "pack")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, pack: Path) -> Path:
    entries = [
        entry({ELU: Result.WRONG, ONE: Result.RIGHT, DOUBLE: Result.CRASHED, ABS: Result.RIGHT}),
        entry(dict.fromkeys(IDS, Result.RIGHT), runtime="slow", version="7"),
        entry(dict.fromkeys(IDS, Result.WRONG), runtime="slow", version="6", started="2025-01-02"),
        entry({ELU: Result.UNSUPPORTED, ABS: Result.RIGHT}, runtime=HOSTILE),
    ]
    return write_scoreboard(entries, tmp_path_factory.mktemp("site") / "site", pack).parent


def opened(page: Page, site: Path, address: str) -> Page:
    page.goto(f"{(site / address).as_uri()}")
    return page


def test_what_is_claimed_and_wrong_comes_first(page: Page, site: Path) -> None:
    opened(page, site, "index.html")
    assert page.locator("h2").all_inner_texts()[0].startswith("Claimed, but wrong")
    claims = page.locator("#claims tbody tr").all_inner_texts()
    assert [claim.split("\t")[1:3] for claim in claims] == [["Elu", " wrong"], ["Elu", " crashed"]]
    rows = page.locator("section[aria-labelledby=list-core] tbody tr").all_inner_texts()
    assert any(row.startswith("fast 1.2\t1\t1\t0\t0\t0\t0\t2\t2 of 4") for row in rows)
    past = page.locator("#past tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in past if row.startswith("slow")] == [["slow", "7"], ["slow", "6"]]
    axe(page)


def test_operators_can_be_filtered(page: Page, site: Path) -> None:
    opened(page, site, "operators.html")
    rows = page.locator("#operators tbody tr:visible")
    assert rows.count() == 2
    page.get_by_label("Filter operators").fill("el")
    assert [text.split("\t")[0] for text in rows.all_inner_texts()] == ["Elu"]
    assert page.locator("#shown").inner_text() == "1 row"
    page.get_by_label("Filter operators").fill("")
    page.get_by_label("only where runtimes differ").check()
    assert [text.split("\t")[0] for text in rows.all_inner_texts()] == ["Elu"]
    axe(page)


def test_a_cell_leads_to_what_reproduces_it(page: Page, site: Path, pack: Path) -> None:
    opened(page, site, "operators.html")
    page.locator("#operators tbody tr", has_text="Elu").get_by_text("wrong, 1 of 3").click()
    assert page.locator("h1").inner_text() == "Elu" and page.url.endswith("#runtime-1")
    squares = page.locator("#opsets tbody tr", has_text="fast 1.2").locator("td").all_inner_texts()
    assert squares == ["crashed, 0 of 1", "wrong, 1 of 2"]
    wrong = page.locator("li.outcome", has_text=ELU).first
    wrong.locator(".copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == f"run-pack PACK OUT -k '{ELU}'"
    address = wrong.get_by_text("The test as a file").get_attribute("href")
    with tarfile.open(fileobj=io.BytesIO((site / "operators" / str(address)).read_bytes())) as archive:
        model = archive.extractfile(f"{ELU}/model.onnx")
        assert model is not None and model.read() == (pack / "tests" / ELU / "model.onnx").read_bytes()
    axe(page)


def test_badges_and_json_have_the_same_figures(site: Path) -> None:
    picture = ET.parse(site / "badges/fast-1.2-core.svg").getroot()
    assert picture.get("aria-label") == "ONNX core: 50% right, 2 wrong"
    badge = json.loads((site / "badges/slow-7-core.json").read_text("utf-8"))
    assert (badge["message"], badge["color"]) == ("100% right, 0 wrong", "2e7d4f")
    told = json.loads((site / "scoreboard.json").read_text("utf-8"))
    assert [(each["runtime"], each["version"]) for each in told["entries"][1:]] == [
        ("fast", "1.2"),
        ("slow", "6"),
        ("slow", "7"),
    ]
    assert HOSTILE not in (site / "index.html").read_text("utf-8")


def test_a_site_replaces_a_site_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "site"
    for ids in (IDS, (ABS,)):
        write_scoreboard([entry(dict.fromkeys(ids, Result.RIGHT))], out)
    assert len(list((out / "operators").iterdir())) == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("keep")
    with pytest.raises(ReportError, match="contains files, but no report"):
        write_scoreboard([entry({ABS: Result.RIGHT})], tmp_path / "mine")


def test_a_run_has_an_entry_for_each_runtime_and_none_for_the_exporter_s_mistakes() -> None:
    wrong = replace(PASSING, cell="w", runtime="tract", status=Status.FAILED, stage=Stage.COMPARE, reason="off by one")
    exporter_s = replace(wrong, cell="x", blame=Blame.EXPORTER)
    refused = replace(PASSING, cell="r", runtime="", status=Status.UNSUPPORTED, stage=Stage.EXPORT)
    entries = {each.runtime: each for each in of_run([PASSING, wrong, exporter_s, refused], info())}
    assert {name: [str(test.result) for test in each.tests] for name, each in entries.items()} == {
        PASSING.runtime: ["right"], "tract": ["wrong"],
    }  # fmt: skip
    assert entries["tract"].tests[0].again == wrong.again and entries["tract"].tests[0].reason == "off by one"


def test_the_command_takes_runs_and_submissions(tmp_path: Path, pack: Path) -> None:
    run = write_run(tmp_path, [PASSING], info())
    good = submit(tmp_path / "good", pack, dict.fromkeys(IDS, "ran"))
    bad = submit(tmp_path / "bad", pack, {ELU: "wrong"}, runtime="bad")

    def call(*folders: Path, options: tuple[str, ...] = ("--pack", str(pack))) -> tuple[int, str]:
        ended = CliRunner().invoke(app, ["scoreboard", *map(str, folders), "--site", str(tmp_path / "site"), *options])
        return ended.exit_code, ended.output

    assert call(run, good)[0] == 0
    assert call(run, good, bad)[0] == 1
    told = json.loads((tmp_path / "site/scoreboard.json").read_text("utf-8"))
    assert sorted(each["runtime"] for each in told["entries"]) == ["bad", "fast", PASSING.runtime]
    assert call(good, options=()) == (2, f"{good} is a submission: name the pack that it ran with --pack.\n")
    assert call(tmp_path / "nothing")[0] == 2
