"""A real Chromium for the tests of the pages: the system's where there is one, else Playwright's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: `--no-sandbox` because tests run as root in containers; the others keep it from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOW_TO_GET_ONE = (
    "no Chromium to open the report with: install `chromium` (apt install chromium, brew install chromium) "
    "or run `playwright install chromium`"
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        except Error as error:
            if found:
                raise
            _without_chromium(error)
        yield browser
        browser.close()


def _without_chromium(error: Error) -> NoReturn:
    """A skip on someone's machine; in CI, where nobody reads skips, a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{HOW_TO_GET_ONE}; in CI it may not be missing ({error.message})", pytrace=False)
    pytest.skip(HOW_TO_GET_ONE)
