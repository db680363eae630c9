"""Putting a report in its place whole: written aside in the same folder, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Every page says it in its head; a folder whose index.html does not is not ours to replace.
GENERATOR = "onnx-parity"
_MARK = f'<meta name="generator" content="{GENERATOR}">'


class ReportError(Exception):
    """A report that cannot be written. The message says where, why, and what to do."""


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield a folder to write into, which becomes `out` when the block ends well, and vanishes when it does not."""
    place = out.resolve()
    _refuse_what_is_not_a_report(place, out)
    aside = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    try:
        aside.mkdir(parents=True)
        yield aside
        _take_the_place(aside, place)
    except OSError as error:
        raise ReportError(
            f"the report could not be written to {out}: {error.strerror or error} ({error.filename or aside}). "
            "Free space there or choose another folder; nothing was left half-written."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def is_report(folder: Path) -> bool:
    try:
        with (folder / "index.html").open(encoding="utf-8", errors="replace") as page:
            return _MARK in page.read(1000)
    except OSError:
        return False


def _refuse_what_is_not_a_report(place: Path, out: Path) -> None:
    if not place.exists() or is_report(place):
        return
    if not place.is_dir():
        raise ReportError(f"{out} is a file; a report is a folder. Choose another name or remove it.")
    if any(place.iterdir()):
        raise ReportError(
            f"{out} holds files that are not a report of onnx-parity, and writing there would replace them. "
            "Choose a folder that is new or empty."
        )


def _take_the_place(aside: Path, place: Path) -> None:
    """A folder cannot be renamed over a full one: the old report steps aside, and back if the new one cannot enter."""
    if not place.exists():
        aside.rename(place)
        return
    old = place.with_name(f"{aside.name}-old")
    place.rename(old)
    try:
        aside.rename(place)
    except OSError:
        os.rename(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)
