"""docs/versions.md: with which versions of Python and of packages the cells were run, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.record import WRONG, RunInfo, Status
from onnx_parity.harness.results.causes import Cause, causes_of
from onnx_parity.harness.results.completeness import is_unfinished
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_end, read_info, read_records

_PACKAGES = ("python", "torch", "onnx", "onnxruntime")
#: As Python names them on Linux, macOS and Windows.
_ARCHITECTURES = ("x86_64", "aarch64", "arm64", "AMD64", "ARM64")
#: At most this many causes are named for each run.
_MOST = 5

_HEAD = """\
# Versions

Which cells passed with which versions of Python, PyTorch, onnx and onnxruntime. `python -m documents versions` writes
this page from runs, which the environments `versions-*` of tox make:

    tox -m versions
    python -m documents versions .tox/versions/*/last

A cell is *wrong* if it failed, crashed, or passed although an expectation says that it fails. What is *refused* differs
with torch, which decomposes operators in other ways.

"""


class TestedVersions(msgspec.Struct, frozen=True):
    """One run."""

    versions: dict[str, str]
    platform: str
    day: str
    tier: str
    opsets: str
    counts: dict[Status, int]
    #: What is wrong, by cause.
    wrong: list[str]


def row_of(run: Path) -> TestedVersions:
    """What the table says of a run, which has to be whole."""
    info, records = read_info(run), read_records(run)
    if records.damage:
        raise RunStoreError(records.damage)
    if is_unfinished(info, read_end(run)) or info.shard:
        raise RunStoreError(f"{run} has not all of its cells, and what it lacks cannot be told. Run it to its end.")
    causes = causes_of(record for record in records if record.status in WRONG)
    return TestedVersions(
        {package: _release(info, package) for package in _PACKAGES},
        _system(info.platform),
        info.started.partition("T")[0],
        info.tier,
        opset_ranges(record.opset for record in records),
        dict(Counter(record.status for record in records)),
        [_named(cause) for cause in causes[:_MOST]] + ([f"{len(causes) - _MOST} more"] if len(causes) > _MOST else []),
    )


def page(rows: Sequence[TestedVersions], not_run: Sequence[str] = ()) -> str:
    """The page in Markdown, the newest versions first. `not_run` are versions without a run, each with its reason."""
    columns = [*_PACKAGES, "tier", "opsets", "cells", "passed", "refused", "known failures", "wrong", "day"]
    ordered = sorted(rows, key=lambda row: [_parts(row.versions[package]) for package in _PACKAGES], reverse=True)
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * (len(_PACKAGES) + 2)}{'--:|' * 5}---|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in ordered]
    notes = [
        f"- {', '.join(f'{package} {row.versions[package]}' for package in _PACKAGES)}: {'; '.join(row.wrong)}"
        for row in ordered
        if row.wrong
    ]
    platforms = ", ".join(dict.fromkeys(row.platform for row in ordered))
    parts = [_HEAD + "\n".join(lines), f"Run on {platforms}."]
    parts += ["Not run:", "\n".join(f"- {each}" for each in not_run)] if not_run else []
    parts += ["What is wrong:", "\n".join(notes)] if notes else []
    return "\n\n".join(parts) + "\n"


def _cells(row: TestedVersions) -> list[str]:
    counts = Counter(row.counts)
    wrong = sum(counts[status] for status in WRONG)
    ran = counts.total() - counts[Status.ABSENT]
    numbers = (ran, counts[Status.PASSED], counts[Status.UNSUPPORTED], counts[Status.KNOWN], wrong)
    return [*row.versions.values(), row.tier, row.opsets, *(f"{number:,}" for number in numbers), row.day]


def _named(cause: Cause) -> str:
    return f"`{cause.subject}` {cause.where}, {cause.cells} cell{'s' * (cause.cells != 1)}"


def _release(info: RunInfo, package: str) -> str:
    """`2.13.0` of `2.13.0+cpu`."""
    return info.packages.get(package, "none").partition("+")[0]


def _system(platform: str) -> str:
    """`Linux, x86_64` of `Linux-6.1.0-13-amd64-x86_64-with-glibc2.36`."""
    words = platform.split("-")
    return ", ".join([words[0], *(word for word in words[1:] if word in _ARCHITECTURES)])


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]
