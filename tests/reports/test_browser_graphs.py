"""Drawn graphs in a real browser: found, explained, moved, and two beside each other."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.browser import DRAWING, axe, case, chain, open_page
from tests.reports.synthetic_run import PASSING

#: The section of a case's page with its graph.
GRAPH = "section[aria-labelledby=drawing]"
DRAWN = case("avg_pool2d", "pooling", "avg_pool2d[ceil_mode=True]")


def test_a_graph_is_drawn_searched_and_explained(page: Page, site: Path) -> None:
    open_page(page, site, f"{DRAWN}&beside=nothing")
    boxes = page.locator(".box")
    expect(boxes).to_have_count(5)
    expect(page.locator(".box.diverges")).to_contain_text("≠ AveragePool")
    expect(page.locator(".box.held")).to_contain_text("= Pad")
    expect(page.locator(GRAPH)).to_contain_text("1 of 2 values inside the model that PyTorch has too diverge")
    expect(page.locator(GRAPH)).to_contain_text("Opset 7: AveragePool: ceil_mode needs opset 10")
    search = page.get_by_label("Find in parity, opset 9")
    search.fill("aten.averagepool")
    expect(page.locator(".box.hit")).to_have_count(1)
    search.press("Enter")
    expect(page.locator(".of-node")).to_contain_text("diverges: at (0, 1): 0.5")
    expect(page.locator(".of-node")).to_contain_text("model.py:3")
    # What is below is lower, and no two boxes lie on each other.
    tops = [box.bounding_box() for box in boxes.all()]
    assert all(one and other and one["y"] + one["height"] <= other["y"] for one, other in pairwise(tops))
    expect(page.locator(".errors")).to_contain_text("1 of 6 parts of the output exceed the tolerance")
    expect(page.locator(".bands")).to_contain_text("NaN or infinite")


@pytest.mark.slow
def test_the_graph_of_another_exporter_stands_beside_a_small_one_and_none_beside_itself(page: Page, site: Path) -> None:
    open_page(page, site, DRAWN)
    first, second = page.get_by_label("graph of"), page.get_by_label("beside it")
    expect(second.locator("option:checked")).to_have_text("torch_script, opset 9")
    expect(page.locator(".canvas")).to_have_count(2)
    first.select_option("torch_script, opset 9")
    expect(second.locator("option:checked")).to_have_text("parity, opset 9")
    assert second.locator("option[hidden]").all_text_contents() == ["torch_script, opset 9"]
    second.select_option("nothing")
    expect(page.locator(".canvas")).to_have_count(1)
    page.reload()
    expect(second.locator("option:checked")).to_have_text("nothing")


@pytest.mark.slow
def test_two_opsets_stand_beside_each_other_with_their_difference(page: Page, site: Path) -> None:
    open_page(page, site, DRAWN)
    page.get_by_label("beside it").select_option("parity, opset 13")
    expect(page.locator(".canvas")).to_have_count(2)
    expect(page.locator(".box.only-here")).to_have_count(1)
    expect(page.locator(".box.only-here")).to_contain_text("Δ Div")
    page.get_by_text("The graph as text").click()
    expect(page.locator(f"{GRAPH} ins").first).to_contain_text("+")
    page.reload()
    expect(page.locator(".canvas")).to_have_count(2)
    axe(page)
    page.get_by_label("beside it").select_option("torch_script, opset 9")
    expect(page.locator(".box.only-here")).to_contain_text("Δ Identity")
    page.reload()
    expect(page.locator(".box.only-here")).to_contain_text("Δ Identity")


def test_a_graph_is_moved_and_zoomed_with_the_keyboard(page: Page, site: Path) -> None:
    open_page(page, site, DRAWN)
    picture = page.locator(".canvas svg").first

    def seen() -> list[float]:
        return [float(each) for each in (picture.get_attribute("viewBox") or "").split()]

    expect(picture).to_have_attribute("viewBox", re.compile(r"\d"))
    page.locator(".canvas").first.focus()
    whole = seen()
    page.keyboard.press("+")
    assert seen()[2] < whole[2]
    before = seen()
    page.keyboard.press("ArrowDown")
    assert seen()[1] > before[1]
    page.keyboard.press("0")
    assert seen()[2] == pytest.approx(whole[2], rel=0.01)


@pytest.mark.slow
def test_a_graph_of_a_thousand_nodes_is_drawn(page: Page, tmp_path: Path) -> None:
    ops = [("Conv", "Relu", "Add", "Mul")[number % 4] for number in range(1000)]
    large = replace(
        DRAWING,
        family="activation",
        name="elu",
        case="elu",
        graphs=[chain(ops), chain([*ops[:500], "Div", *ops[500:]])],
    )
    drawings = [to_builtins(large)]
    folder = write_report(write_run(tmp_path, [PASSING]), tmp_path / "report", drawings=drawings).parent
    open_page(page, folder, case("elu", "activation", "elu"))
    expect(page.locator(".box")).to_have_count(1002)
    took = page.evaluate(
        """() => {
            const began = performance.now();
            const beside = [...document.querySelectorAll(".tools:has(+ .panes) select")][1];
            beside.value = "1";
            beside.dispatchEvent(new Event("change"));
            return performance.now() - began;
        }"""
    )
    # Half a second on an idle machine; the tests run on busy ones.
    assert took < 5000
    expect(page.locator(".box.only-here")).to_have_count(1)


def test_a_case_that_was_not_drawn_says_how_it_can_be(page: Page, site: Path) -> None:
    open_page(page, site, case("relu", "activation", "relu"))
    expect(page.locator(f"{GRAPH} code")).to_have_text("parity report --draw 'relu'")
