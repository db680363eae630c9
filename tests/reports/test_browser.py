"""The pages in a real browser: no errors, no network, filters, sorting, and use by keyboard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from onnx_parity.harness.drawing.drawings import AtOpset, Drawing, DrawnGraph, DrawnNode, ErrorPicture
from onnx_parity.harness.record import Kind, OnnxUse, Record, RunEnd, Stage, Status
from onnx_parity.reports.single_file import write_single_file
from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.browser import METRICS, PAGES, TIMEOUT, axe, case, names, open_page
from tests.reports.synthetic_run import PASSING, Made, info, records


@pytest.mark.slow
def test_the_pages_follow_the_scheme_of_their_reader(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(253, 253, 252)", "rgb(20, 23, 22)"]


def test_the_first_page_describes_the_run(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    expect(page.locator("h1")).to_have_text("Regressed: new failure (3)")
    expect(page.locator(".hero .scope").first).to_contain_text("Compared with 20260130-101500")
    expect(page.locator(".hero .scope").first).to_contain_text("5 of the 1,880 cells that ran are wrong.")
    expect(page.locator(".counts li").first).to_contain_text("1 crashed")
    expect(page.locator(".outcome").first).to_contain_text("killed by SIGSEGV (11) in ConvTranspose")
    expect(page.locator(".facts")).to_contain_text("no CUDA device")


def test_a_grid_filters_by_words_and_by_states(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    tools = page.locator('.tools[data-for="operators"]')
    tools.locator("input").fill("pool2d MAX")
    assert names(page, "operators") == ["max_pool2d"]
    expect(tools.locator("output")).to_have_text("1 of 40 declarations")
    tools.locator("input").fill("aten::addmm")
    assert names(page, "operators") == ["addmm"]
    tools.locator("input").fill("")
    tools.locator('[data-state="failed"]').click()
    assert names(page, "operators") == ["avg_pool2d"]
    tools.locator('[data-state="known"]').click()
    assert names(page, "operators") == ["avg_pool2d", "topk"]
    tools.locator("input").fill("elu")
    expect(page.locator("#operators + .nothing, .nothing").first).to_have_text("No declaration matches.")
    expect(page.locator(".nothing").first).to_be_visible()


def test_a_table_sorts_by_words_and_by_numbers(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    since = page.locator("#operators thead th", has_text="since")
    since.locator("button").click()
    expect(since).to_have_attribute("aria-sort", "ascending")
    since.locator("button").click()
    expect(since).to_have_attribute("aria-sort", "descending")
    assert names(page, "operators")[:4] == ["conv_transpose2d", "batch_norm", "index_put", "topk"]
    page.locator("#operators thead button", has_text="declaration").click()
    expect(page.locator("#operators tbody tr")).to_have_count(40)
    assert (names(page, "operators")[0], names(page, "operators")[-1]) == ("adaptive_avg_pool2d", "view")
    expect(since).to_have_attribute("aria-sort", "none")
    assert page.evaluate('["b10", "B2", "a_1", "a"].sort(byName)') == ["a", "a_1", "B2", "b10"]


@pytest.mark.slow
def test_the_keyboard_walks_the_grid_and_hears_the_reasons(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    tip = page.get_by_role("tooltip")
    row = page.locator("#operators tbody tr", has=page.get_by_role("link", name="threshold", exact=True))
    row.get_by_role("link").focus()
    page.locator("#operators td[tabindex='0']").focus()
    page.keyboard.press("End")
    expect(tip).to_contain_text("elu at opset 26: 2 passed, 2 absent")
    page.keyboard.press("Home")
    for _ in range(11):
        page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text("threshold at opset 7: 1 unsupported, 1 absent")
    expect(tip).to_contain_text("export: ONNX cannot say aten::threshold (threshold=0.1,value=20) before opset 9")
    expect(tip).to_be_in_viewport()
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("threshold at opset 8")
    expect(page.locator("#operators .opset.on")).to_have_text("8")
    assert page.locator("#operators td[tabindex='0']").count() == 1
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("Enter")
    page.wait_for_url("**/case.html#name=threshold&*opset=8")


def test_the_pointer_leads_from_a_square_to_its_case_and_its_cell(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    failed = page.locator("#operators td.failed").first
    failed.hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("avg_pool2d[ceil_mode=True], compare · exporter: output 0 at (0, 1, 3, 3)")
    failed.click()
    page.wait_for_url("**/case.html#name=avg_pool2d&*opset=7")
    page.get_by_role("link", name="avg_pool2d[ceil_mode=True]").first.click()
    page.wait_for_url("**/case.html#*case=avg_pool2d*")
    page.locator("#variants td.failed").nth(2).click()
    cell = page.locator("details.cell[open]")
    expect(cell).to_have_count(1)
    expect(cell.locator("pre")).to_contain_text("so the graph is wrong")
    expect(cell.locator(".metrics")).to_contain_text("output 0 at (0, 1, 3, 3)")
    cell.get_by_role("button", name="Copy").click()
    expect(cell.get_by_role("button")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == 'pytest "op_cases/pooling.py::avg_pool2d[ceil_mode=True]-float32-opset9-cpu-trace-onnxruntime"'


def test_divergence_filters_by_opset_and_words(page: Page, site: Path) -> None:
    open_page(page, site, "divergence.html")
    rows = page.locator("#divergence tbody tr:not([hidden])")
    expect(rows.first).to_contain_text("avg_pool2d[ceil_mode=True]")
    page.locator(".tools select").select_option("8")
    page.locator(".tools input").fill("pooling ceil_mode")
    expect(rows).to_have_count(1)
    expect(rows.locator("td").nth(1)).to_have_text("7–9")
    page.locator(".tools select").select_option("")
    assert rows.count() > 1


def test_traced_operators_are_found_by_what_exercises_them(page: Page, site: Path) -> None:
    open_page(page, site, "traced.html")
    page.locator('.tools[data-for="aten"] input').fill("resnet50")
    assert names(page, "aten") == ["aten::addmm", "aten::conv2d", "aten::relu"]


@pytest.mark.slow
def test_on_a_phone_the_grid_scrolls_and_the_page_does_not(chromium: Browser, small: Path, site: Path) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    for address in PAGES:
        open_page(page, small, address)
        assert page.evaluate("document.documentElement.scrollWidth") == 390, address
        # No word of the links to pages is broken.
        assert (
            page.evaluate("Math.max(...[...document.querySelectorAll('nav a')].map((each) => each.offsetHeight))") < 40
        )
    open_page(page, site, "index.html")
    assert page.evaluate("(s => s.scrollWidth > s.clientWidth)(document.querySelector('.scroll'))")
    page.locator("#operators td.unsupported").first.tap()
    page.get_by_role("tooltip").get_by_role("link", name="Open").tap()
    page.wait_for_url("**/case.html#name=threshold&*opset=7")
    context.close()


HOSTILE = (
    '</script><script>window.ran = 1</script><img src=x onerror="window.ran = 1">',
    "\"'><svg onload=window.ran=1>&quot;javascript:window.ran=1",
    "\u202e\u2066reversed\u2069" + "long" * 2500,
)


def hostile_run(hostile: str) -> tuple[list[Record], Drawing, dict[str, str]]:
    """A case whose every text is hostile, its drawing, and a finding."""
    cell = replace(
        PASSING, cell=hostile, case=hostile, name=hostile, family=hostile, reason=hostile, message=hostile,
        file=hostile, aten=(hostile,), calls=(hostile,), onnx=(OnnxUse(hostile, 1, domain=hostile),), bundle=hostile,
        error=hostile, link=f"javascript:{hostile}", status=Status.FAILED, stage=Stage.COMPARE, metrics=METRICS,
    )  # fmt: skip
    twins = [replace(cell, cell=f"g{hostile}", case="g"), replace(cell, cell=f"h{hostile}", runtime=hostile)]
    node = DrawnNode(
        hostile, 0, [hostile, "constructor"], ["toString"], hostile, [(hostile, hostile)], hostile, hostile, hostile
    )
    drawing = Drawing(
        Kind.OPERATOR, hostile, hostile, hostile, hostile, 9, program=hostile, exporter=hostile,
        opsets=[AtOpset(9, 0), AtOpset(8, -1, hostile), AtOpset(9, -1, hostile, hostile)],
        graphs=[DrawnGraph([hostile, "constructor"], ["toString"], [node], types={hostile: hostile})],
        errors=[ErrorPicture(hostile, hostile, [1])], missing=hostile,
    )  # fmt: skip
    finding = {"name": hostile, "title": hostile, "link": f"javascript:{hostile}", "text": hostile, hostile: hostile}
    return [cell, *twins], drawing, finding


def test_what_a_record_says_never_runs(page: Page, tmp_path: Path) -> None:
    made = [hostile_run(hostile) for hostile in HOSTILE]
    run = write_run(tmp_path, [each for cells, _, _ in made for each in cells])
    drawings, findings = [to_builtins(drawing) for _, drawing, _ in made], [finding for _, _, finding in made]
    folder = write_report(run, tmp_path / "report", drawings=drawings, findings=findings).parent
    pages = ("index.html", "findings.html", "divergence.html", "traced.html", "runtimes.html", "exporters.html")
    for address in pages:
        open_page(page, folder, address)
        for square in page.locator(".grid td.failed").all():
            square.hover()
            expect(page.get_by_role("tooltip")).to_be_visible()
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    for hostile in HOSTILE:
        open_page(page, folder, case(hostile, hostile))
        page.locator(".grid td.failed").first.hover()
        expect(page.get_by_role("tooltip")).to_contain_text(hostile[:20].rsplit("\u202e", maxsplit=1)[-1][:9])
        open_page(page, folder, case(hostile, hostile, hostile))
        page.locator(".box:not(.input)").first.dispatch_event("click")
        expect(page.locator(".of-node")).to_contain_text("toString")
        page.locator("#find").fill(hostile[:9])
        expect(page.locator("#found li").first).to_be_visible()
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), hostile


def test_every_column_of_the_divergence_is_in_sight_on_a_usual_screen(page: Page, site: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    open_page(page, site, "divergence.html")
    assert page.evaluate("(([box]) => box.scrollWidth - box.clientWidth)(document.querySelectorAll('.scroll'))") == 0


def test_since_is_that_of_the_dtype_with_most_cells_and_names_the_others(page: Page, tmp_path: Path) -> None:
    """float16 is right from opset 13 on, float32 before. ONNX got bfloat16 with opset 13, which is no difference."""
    cells = [replace(PASSING, cell=f"float{opset}", opset=opset) for opset in (9, 11, 13)]
    late = [
        replace(PASSING, cell=f"{dtype}{opset}", opset=opset, dtype=dtype, status=status)
        for dtype in ("float16", "bfloat16")
        for opset, status in ((9, Status.UNSUPPORTED), (13, Status.PASSED))
    ]
    run = write_run(tmp_path, [*cells, *late])
    open_page(page, write_report(run, tmp_path / "report").parent, "index.html")
    since = page.locator("#operators tbody td.number").first
    expect(since).to_have_text("9+")
    expect(since).to_have_attribute("title", "float32; float16: 13")


def test_the_address_holds_the_view(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    tools = page.locator('.tools[data-for="operators"]')
    tools.locator("input").fill("conv")
    tools.locator('[data-state="crashed"]').click()
    page.locator("#operators thead button", has_text="cells").click()
    view = names(page, "operators")
    assert view == ["conv_transpose2d"]
    page.reload()
    page.locator("#operators tbody tr").first.wait_for()
    assert names(page, "operators") == view
    expect(page.locator('.tools[data-for="operators"] [data-state="crashed"]')).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(page.locator("#operators th.number.wide").first).to_have_attribute("aria-sort", "ascending")


def test_the_keyboard_finds_everything(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    page.keyboard.press("/")
    page.keyboard.type("ceil_mode=True avg")
    expect(page.locator("#found [aria-selected='true']")).to_contain_text("avg_pool2d[ceil_mode=True]")
    page.keyboard.press("Enter")
    page.wait_for_url("**/case.html#*")
    expect(page.locator("h1")).to_have_text("avg_pool2d[ceil_mode=True]")
    page.keyboard.press("Control+k")
    page.keyboard.type("aten::lstm")
    expect(page.locator("#found [aria-selected='true']")).to_contain_text("aten::lstm")
    page.keyboard.press("Enter")
    page.wait_for_url("**/traced.html#*")
    expect(page.locator("#aten tbody tr")).to_have_count(1)


def test_what_changed_is_told_by_cause_and_leads_to_cases(page: Page, site: Path) -> None:
    open_page(page, site, "changes.html")
    expect(page.locator("h1")).to_have_text("Regressed: new failure (3)")
    expect(page.locator("table").first).to_contain_text("passed1,8701,868-231")
    expect(page.locator(".scope").last).to_have_text("Undecided: exports of 1 case took longer.")
    expect(page.locator(".scope").first).to_contain_text("torch 2.12.1 → 2.13.0")
    causes = page.locator("#causes-table tbody tr")
    expect(causes).to_have_count(2)
    expect(causes.first).to_contain_text("3")
    row = page.locator("#changes tbody tr").first
    expect(row.locator(".copy")).to_have_attribute(
        "data-copy", "parity repro 'avg_pool2d[ceil_mode=True]-float32-opset7-cpu-trace-onnxruntime'"
    )
    before = row.get_by_role("link", name="The same cell in the baseline").get_attribute("href") or ""
    assert before.startswith("../../before/report/case.html#")
    assert "opset=7" in before
    page.locator(".tools select").select_option("fix")
    assert names(page, "changes") == ["relu float32"]
    page.locator("#changes").get_by_role("link", name="relu float32").click()
    expect(page.locator("h1")).to_have_text("relu")


@pytest.mark.slow
def test_what_to_do_next_is_said_of_a_cause_and_of_a_cell(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    failed = page.locator(".outcome.failed").first
    failed.get_by_text("What next?").click()
    failed.locator("details.next .copy").first.wait_for()
    lines = [each.get_attribute("data-copy") or "" for each in failed.locator("details.next .copy").all()]
    assert [line.split("[")[0].split("'")[0] for line in lines][:3] == [
        "parity repro ",
        "parity localise ",
        "parity reduce ",
    ]
    assert lines[3].startswith("git bisect start HEAD GOOD && git bisect run pytest ")
    assert lines[4] == "parity expect"
    # What ended its process is neither localised nor reduced.
    crashed = page.locator(".outcome.crashed").first
    crashed.get_by_text("What next?").click()
    expect(crashed.locator("details.next .copy")).to_have_count(3)
    failed.locator(".cases a").first.click()
    page.locator("details.cell.failed, details.cell").first.wait_for()
    expect(page.get_by_text("What next?").first).to_be_visible()
    axe(page)


def test_a_run_that_was_stopped_says_so_first_and_how_to_go_on(page: Page, tmp_path: Path) -> None:
    end = RunEnd("2026-01-31T10:20:00+00:00", whole=False, cells=1, lacking=3, why="it was interrupted")
    run = write_run(tmp_path / "run", [PASSING], replace(info(), schema_version=2), end)
    folder = write_report(run, tmp_path / "report").parent
    open_page(page, folder, "index.html")
    expect(page.locator("h1")).to_have_text(
        "Unfinished: 75% of its cells were not run. Nothing is wrong: 1 of the 1 cell that ran passed."
    )
    expect(page.locator(".counts")).to_contain_text("3 not run")
    assert page.locator(".bar .not_covered").evaluate("each => each.style.flexGrow") == "3"
    expect(page.locator(".notice .copy")).to_have_attribute("data-copy", f"parity run --resume {run}")
    axe(page)


def test_exporters_stand_beside_each_other(page: Page, small: Path) -> None:
    open_page(page, small, "index.html")
    expect(page.locator(".subjects")).to_contain_text("torch_script")
    page.get_by_role("link", name="Side by side").click()
    expect(page.locator("#beside tbody tr")).to_have_count(1)
    page.locator(".tools select").nth(1).select_option("torch_script → onnxruntime")
    assert names(page, "beside") == ["elu"]
    page.locator(".tools select").nth(1).select_option("parity → onnxruntime")
    expect(page.locator("#beside tbody tr")).to_have_count(0)
    page.reload()
    expect(page.locator(".nothing")).to_be_visible()


def test_runtimes_stand_beside_each_other_and_what_is_claimed_but_wrong_comes_first(page: Page, small: Path) -> None:
    open_page(page, small, "runtimes.html")
    expect(page.locator("table").first).to_contain_text("tract010001")
    finding = page.locator("#findings tbody tr")
    expect(finding).to_contain_text(["wrong", "crashed"])
    expect(finding.last).to_contain_text("tract")
    page.get_by_label("ending").select_option("crashed")
    expect(finding).to_have_count(1)
    expect(finding).to_contain_text("was killed by SIGABRT")
    page.locator('.tools[data-for="endings"] select').last.select_option("only where they differ")
    rows = page.locator("#endings tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("1 of 2")
    rows.last.locator("td.crashed").hover()
    expect(page.get_by_role("tooltip")).to_contain_text("elu at opset 13: crashed")
    expect(page.get_by_role("tooltip")).to_contain_text("was killed by SIGABRT")
    page.reload()
    expect(rows).to_have_count(2)


def test_a_report_without_a_baseline_says_how_to_compare(page: Page, tmp_path: Path) -> None:
    early, late = (replace(info(), id=each, started=f"2026-0{each}-01T10:15:00Z") for each in "12")
    write_report(write_run(tmp_path, [PASSING], early), tmp_path / "1" / "report")
    folder = write_report(write_run(tmp_path, [PASSING], late), tmp_path / "2" / "report").parent
    page.goto(f"{folder.as_uri()}/changes.html")
    expect(page.locator(".command")).to_contain_text(f"parity report {tmp_path}/2 --baseline {tmp_path}/1")


def test_what_is_covered_of_what_names_the_rest_and_why(page: Page, site: Path) -> None:
    open_page(page, site, "pytorch.html")
    expect(page.locator("table").first).to_contain_text("ATen")
    expect(page.locator("#group")).to_have_text("ATen 1 of 3 covered")
    rows = page.locator("#names-table tbody tr")
    expect(rows).to_contain_text(["elu", "failed", "not covered"])
    expect(page.get_by_role("link", name="torch", exact=True)).to_have_count(0)
    shares = page.locator(".scroll table").first.locator("tbody tr")
    expect(shares.nth(0)).to_contain_text("33%")
    # What cannot be here is not a share of nothing.
    expect(shares.filter(has_text="timm")).to_contain_text("absent")
    page.get_by_role("link", name="ONNX", exact=True).click()
    expect(page.locator("#group")).to_have_text("ONNX 0 of 1 covered")
    expect(rows.first).to_contain_text("no exported graph of this run has it")


def test_a_case_that_the_run_does_not_have_is_said(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}/{case('gone', 'pooling')}")
    expect(page.locator(".scope")).to_have_text("This run has no operator called gone.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("pages", [PAGES[:1], pytest.param(PAGES[1:], marks=pytest.mark.slow)], ids=["first", "others"])
def test_every_page_opens_clean_and_a_screen_reader_can_read_it(
    page: Page, small: Path, scheme: Literal["light", "dark"], pages: Sequence[str]
) -> None:
    page.emulate_media(color_scheme=scheme)
    for address in pages:
        open_page(page, small, address)
        expect(page.locator("h1")).to_be_visible()
        axe(page)


@pytest.mark.slow
def test_the_first_page_of_a_large_run_shows_at_once(page: Page, tmp_path: Path) -> None:
    many = [Made(f"family_{number % 30}", f"operator_{number}", (("Relu", 6),)) for number in range(1500)]
    made = records(many, opsets=(7, 9, 11, 13, 18, 23))
    folder = write_report(write_run(tmp_path, made), tmp_path / "report").parent
    read = (folder / "index.html", folder / "data" / "coverage.js", *(folder / "static").iterdir())
    assert sum(path.stat().st_size for path in read) < 2_000_000
    open_page(page, folder, "index.html")
    filtered = page.evaluate(
        """() => {
            const search = document.querySelector('.tools[data-for="operators"] input');
            const began = performance.now();
            search.value = "operator_14";
            search.dispatchEvent(new Event("input"));
            const filtered = performance.now() - began;
            const heads = [...document.querySelectorAll("#operators thead button")];
            heads.find((each) => each.textContent === "cells").click();
            return [filtered, performance.now() - began - filtered];
        }"""
    )
    # 10 ms on an idle machine; the tests run on busy ones.
    assert max(filtered) < 1000
    assert "operator_14" in names(page, "operators")


def test_a_page_runs_and_loads_its_own_files_alone(chromium: Browser, site: Path) -> None:
    context = chromium.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("requestfailed", lambda request: refused.append(request.failure or ""))
    open_page(page, site, "index.html")
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = 1";
            const image = document.createElement("img");
            image.src = "https://example.org/pixel.png";
            const frame = document.createElement("iframe");
            frame.src = "https://example.org/";
            document.body.append(script, image, frame);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert set(refused) == {"csp"}
    # Widths of bars are style attributes, which are allowed.
    assert page.evaluate("document.querySelector('.bar i').style.flexGrow") != ""
    assert page.evaluate("getComputedStyle(document.querySelector('.bar i')).flexGrow") != "0"
    context.close()


def test_enter_goes_where_the_search_leads_when_it_has_answered(page: Page, site: Path) -> None:
    open_page(page, site, "index.html")
    # Nothing waits for the answer: the data of the search have not been loaded yet.
    page.evaluate(
        """() => {
            const finder = document.getElementById("find");
            finder.value = "avg_pool2d[ceil_mode=True]";
            finder.dispatchEvent(new Event("input"));
            finder.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        }"""
    )
    page.wait_for_url("**/case.html#*")
    expect(page.locator("h1")).to_have_text("avg_pool2d[ceil_mode=True]")


@pytest.mark.slow
def test_a_report_in_one_file_has_every_page(page: Page, site: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert write_single_file(site, file) == file.stat().st_size
    page.goto(file.as_uri())
    expect(page.locator("h1")).to_have_text("Regressed: new failure (3)")
    page.locator("#operators td.failed").first.click()
    expect(page.locator("h1")).to_have_text("avg_pool2d")
    page.get_by_role("link", name="avg_pool2d[ceil_mode=True]").first.click()
    expect(page.locator(".box.diverges")).to_have_count(1)
    page.get_by_role("link", name="Findings").click()
    expect(page.locator("#ledger")).to_contain_text("Elu of -0.0 is 0.0")
    axe(page)
    page.keyboard.press("/")
    page.keyboard.type("aten::lstm")
    expect(page.locator("#found [aria-selected='true']")).to_contain_text("aten::lstm")
    page.keyboard.press("Enter")
    expect(page.locator("#aten tbody tr")).to_have_count(1)
