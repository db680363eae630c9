"""A browser for the tests of a report, and the reports that several of them open.

The browser is the Chromium on PATH, else Playwright's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from onnx_parity.harness.record import RunEnd, Stage, Status
from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.browser import CHANGES, DRAWING, FINDINGS, NAMES, TIMEOUT
from tests.reports.synthetic_run import MODELS, OPERATORS, PASSING, info, records

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Error, Page, ViewportSize

HOW_TO_GET_ONE = (
    "no Chromium to open the report with: install `chromium` (apt install chromium, brew install chromium) "
    "or run `playwright install chromium`"
)
#: What a page may ask for; about:blank is where it waits between tests.
LOCAL = ("file://", "about:")
VIEWPORT: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Closed after the tests of this folder: while it is open, others in this process can run no event loop."""
    from playwright.sync_api import Error, expect, sync_playwright

    from benchmarks.at_scale.in_browser import found_browser, launched

    with sync_playwright() as playwright:
        try:
            browser = launched(playwright)
        except Error as error:
            if found_browser():
                raise
            _without_chromium(error)
        expect.set_options(timeout=TIMEOUT)
        yield browser
        browser.close()


def _without_chromium(error: Error) -> NoReturn:
    """A skip on someone's machine; in CI, where nobody reads skips, a failure."""
    why = f"{HOW_TO_GET_ONE} ({error.message.splitlines()[0]})"
    if os.environ.get("CI"):
        pytest.fail(f"{why}; in CI it may not be missing", pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    run = write_run(folder, records(), info(), RunEnd("2026-01-31T10:20:00+00:00", whole=True))
    return write_report(
        run, folder / "report", NAMES, CHANGES, drawings=[to_builtins(DRAWING)], findings=FINDINGS
    ).parent


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every page and every state, and few rows."""
    folder = tmp_path_factory.mktemp("small")
    few = ("avg_pool2d", "batch_norm", "conv_transpose2d", "gelu", "threshold", "topk")
    made = list(records([*(made for made in OPERATORS if made.name in few), MODELS[-1]]))
    elu = [replace(PASSING, cell=f"elu-float32-opset{opset}-cpu-trace-onnxruntime", opset=opset) for opset in (9, 13)]
    script = [replace(each, cell=f"{each.cell}-torch_script", exporter="torch_script") for each in elu]
    script[0] = replace(script[0], status=Status.FAILED, stage=Stage.COMPARE, reason="off by one")
    tract = [replace(each, cell=each.cell.replace("onnxruntime", "tract"), runtime="tract") for each in elu]
    tract[1] = replace(tract[1], status=Status.CRASHED, stage=Stage.RUN, reason="was killed by SIGABRT in stage run")
    run = write_run(folder, [*made, *elu, *script, *tract], info())
    drawings = [to_builtins(DRAWING)]
    return write_report(run, folder / "report", NAMES, CHANGES, drawings=drawings, findings=FINDINGS).parent


@pytest.fixture(scope="package")
def tab(chromium: Browser) -> Page:
    """The only page that most tests use, one after the other. A page of its own, in a context of its own, would take a
    test 1.2 s of processor time: a page of a report opens in 0.5 s, and keeps nothing but in its address.
    """
    context = chromium.new_context(viewport=VIEWPORT, permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(TIMEOUT)
    return context.new_page()


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """A page that fails its test when it complains, or asks for anything that is not a file."""
    tab.set_viewport_size(VIEWPORT)
    tab.emulate_media(color_scheme="light")
    faults: list[str] = []
    with ExitStack() as listening:

        def listen(event: str, hear: Callable[[Any], None]) -> None:
            tab.on(event, hear)  # type: ignore[call-overload]
            listening.callback(tab.remove_listener, event, hear)

        listen("console", lambda message: faults.append(f"console: {message.text}"))
        listen("pageerror", lambda error: faults.append(f"error: {error}"))
        listen("requestfailed", lambda request: faults.append(f"{request.failure}: {request.url}"))
        listen("request", lambda each: None if each.url.startswith(LOCAL) else faults.append(each.url))
        yield tab
        # What is left of the test ends here, and not in the next one.
        tab.goto("about:blank")
    # A page that is left while its icon loads aborts that; a file that is missing says ERR_FILE_NOT_FOUND.
    assert [fault for fault in faults if not fault.startswith("net::ERR_ABORTED")] == []
