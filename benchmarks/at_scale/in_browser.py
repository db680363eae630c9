"""What readers of a report wait for, measured in Chromium: until its first page shows, and after each filter and sort.

The browser is the Chromium on PATH, else Playwright's own.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: `--no-sandbox` because containers run it as root; the others keep it from calling home.
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: When the first row of a table has been painted, in milliseconds after the page was asked for.
_SHOWN = """
addEventListener("DOMContentLoaded", () => {
  const look = () => document.querySelector("tbody tr td")
    ? requestAnimationFrame(() => setTimeout(() => { document.body.dataset.shown = performance.now(); }))
    : requestAnimationFrame(look);
  look();
});
"""
#: Prepares all that is done on a page, each with its name: to type into every filter, to press every state's button
#: twice, and to sort by every column in both directions.
_ACTIONS = """() => {
  window.actions = [];
  for (const input of document.querySelectorAll(".tools input[type=search]")) {
    for (const text of ["1", "ma", ""]) {
      const type = () => { input.value = text; input.dispatchEvent(new Event("input")); };
      window.actions.push([`${input.placeholder} by ${text || "nothing"}`, type]);
    }
  }
  for (const chip of document.querySelectorAll(".chips button")) {
    for (let turn = 0; turn < 2; turn += 1) window.actions.push([`only ${chip.dataset.state}`, () => chip.click()]);
  }
  for (const head of document.querySelectorAll("thead button")) {
    for (let turn = 0; turn < 2; turn += 1) window.actions.push([`sort by ${head.textContent}`, () => head.click()]);
  }
  return window.actions.map(([name]) => name);
}"""
#: Does one of them, and returns the milliseconds until its frame is painted: a message that is sent while the frame is
#: begun arrives after it.
_ACT = """async (at) => {
  const began = performance.now();
  window.actions[at][1]();
  await new Promise((painted) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = painted;
    channel.port2.postMessage(0);
  }));
  return performance.now() - began;
}"""
#: Each is measured this often, and the least counts: other processes only add to it.
_REPEATS = 3


class Slowest(NamedTuple):
    """What took longest on the pages, in milliseconds, and the processor time of the page for the same."""

    took: float
    processor: float
    #: The page and what was done there.
    where: str


class Opened(NamedTuple):
    """What a reader waits for, in milliseconds, and what Chromium read before the first page showed."""

    shown: float
    #: The processor time of the page until then.
    processor: float
    megabytes: float
    slowest: Slowest


def found_browser() -> str | None:
    """The path of the Chromium on PATH."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def launched(playwright: Playwright) -> Browser:
    """Raises playwright's error if there is no Chromium."""
    return playwright.chromium.launch(executable_path=found_browser(), args=_FLAGS)


def opened(report: Path) -> Opened:
    """Open every page of a report from the disk."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        first = min(_first_page(browser, report) for _ in range(_REPEATS))
        slowest = max(_slowest(browser, page) for page in sorted(report.glob("*.html")))
        browser.close()
    return Opened(*first, slowest)


def _first_page(browser: Browser, report: Path) -> tuple[float, float, float]:
    page = _new_page(browser)
    processor = _ProcessorTime(page)
    read: list[Path] = []
    page.on("request", lambda request: read.append(Path(unquote(urlsplit(request.url).path))))
    page.goto((report / "index.html").as_uri())
    # Not `wait_for_function`, which evaluates a text: the pages' content security policy forbids that.
    body = page.locator("body[data-shown]")
    body.wait_for()
    shown = float(body.get_attribute("data-shown") or "nan")
    spent = processor.milliseconds()
    page.context.close()
    return shown, spent, sum(file.stat().st_size for file in read) / 1e6


def _slowest(browser: Browser, file: Path) -> Slowest:
    page = _new_page(browser)
    processor = _ProcessorTime(page)
    page.goto(file.as_uri())
    page.locator("tbody tr td, .note, .scope").first.wait_for()
    slowest = Slowest(0.0, 0.0, f"{file.name}, nothing to do")
    for at, name in enumerate(page.evaluate(_ACTIONS)):
        tries = []
        for _ in range(_REPEATS):
            before = processor.milliseconds()
            took: float = page.evaluate(_ACT, at)
            tries.append(Slowest(took, processor.milliseconds() - before, f"{file.name}, {name}"))
        slowest = max(slowest, min(tries))
    page.context.close()
    return slowest


class _ProcessorTime:
    """The processor time that the main thread of a page has spent, which other work on the machine hardly affects."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def milliseconds(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration")) * 1e3


def _new_page(browser: Browser) -> Page:
    page = browser.new_context().new_page()
    page.add_init_script(_SHOWN)
    return page
