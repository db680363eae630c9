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
    ? requestAnimationFrame(() => setTimeout(() => { window.shown = performance.now(); }))
    : requestAnimationFrame(look);
  look();
});
"""
#: Types into every filter, presses every state's button, and sorts by every column, and waits for each layout.
_SLOWEST = """() => {
  const slowest = ["nothing", 0];
  const measure = (name, act) => {
    const began = performance.now();
    act();
    document.body.getBoundingClientRect();
    const took = performance.now() - began;
    if (took > slowest[1]) slowest.splice(0, 2, name, took);
  };
  for (const input of document.querySelectorAll(".tools input[type=search]")) {
    for (const text of ["1", "ma", ""]) {
      input.value = text;
      measure(`${input.placeholder} by ${text || "nothing"}`, () => input.dispatchEvent(new Event("input")));
    }
  }
  for (const chip of document.querySelectorAll(".chips button")) {
    for (let turn = 0; turn < 2; turn += 1) measure(`only ${chip.dataset.state}`, () => chip.click());
  }
  for (const head of document.querySelectorAll("thead button")) {
    for (let turn = 0; turn < 2; turn += 1) measure(`sort by ${head.textContent}`, () => head.click());
  }
  return slowest;
}"""
#: Each is measured this often, and the least counts: other processes only add to it.
_REPEATS = 3


class Opened(NamedTuple):
    """What a reader waits for, in milliseconds, and what Chromium read before the first page showed."""

    shown: float
    megabytes: float
    slowest: float
    #: The page and what was done there.
    where: str


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
    return Opened(*first, *slowest)


def _first_page(browser: Browser, report: Path) -> tuple[float, float]:
    page = _new_page(browser)
    read: list[Path] = []
    page.on("request", lambda request: read.append(Path(unquote(urlsplit(request.url).path))))
    page.goto((report / "index.html").as_uri())
    page.wait_for_function("window.shown")
    shown: float = page.evaluate("window.shown")
    page.context.close()
    return shown, sum(file.stat().st_size for file in read) / 1e6


def _slowest(browser: Browser, file: Path) -> tuple[float, str]:
    page = _new_page(browser)
    page.goto(file.as_uri())
    page.locator("tbody tr td, .note, .scope").first.wait_for()
    found: list[tuple[float, str]] = []
    for _ in range(_REPEATS):
        name, took = page.evaluate(_SLOWEST)
        found.append((took, f"{file.name}, {name}"))
    page.context.close()
    return min(found)


def _new_page(browser: Browser) -> Page:
    page = browser.new_context().new_page()
    page.add_init_script(_SHOWN)
    return page
