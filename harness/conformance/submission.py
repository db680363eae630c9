"""A submission: the folder that a runner writes, with what a runtime made of the tests of a pack.

submission.json     what ran: the runtime, its version, the platform, and the pack
results.jsonl       a line for each test: its id, how it ended, and why
outputs/ID/...      optional: the outputs, in the layout of the pack, which are judged here
waivers.json        optional: failures that are known, each with a reason, a link and a date
logs/...            optional: what the lines of results name
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from onnx_parity.harness.conformance.manifest import PackError, inside, read_format

__all__ = ["GRAVE", "Ran", "Result", "Runtime", "Submission", "Submitted", "Waiver", "read_submission"]

T = TypeVar("T")

FORMAT, VERSION = "onnx-parity-submission", 1
SUBMISSION, RESULTS, WAIVERS, OUTPUTS = "submission.json", "results.jsonl", "waivers.json", "outputs"


class Result(StrEnum):
    """How a test ended. The gravest comes first; no two of them are ever counted as one."""

    WRONG = "wrong"
    CRASHED = "crashed"
    HUNG = "hung"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    ABSENT = "absent"
    RIGHT = "right"
    #: The outputs are in files, and are not judged yet.
    RAN = "ran"


#: What a runtime claims to run, and does not get right.
GRAVE = (Result.WRONG, Result.CRASHED, Result.HUNG)
#: The results that a waiver can excuse. What a runtime says that it does not support needs none.
WAIVABLE = (*GRAVE, Result.REFUSED)


class Runtime(msgspec.Struct, frozen=True):
    """What is under test."""

    name: Annotated[str, Meta(min_length=1)]
    version: str
    settings: Annotated[str, Meta(description="What distinguishes it from others of this version")] = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.version, self.settings)))


class Submission(msgspec.Struct, frozen=True):
    """`submission.json`: what ran."""

    format: Annotated[str, Meta(description=FORMAT)]
    version: Annotated[int, Meta(description="Of this format")]
    pack: Annotated[str, Meta(description="The SHA-256 of the manifest.json of the pack")]
    runtime: Runtime
    platform: str
    runner: Annotated[str, Meta(description="The name and the version of the runner")]
    list: Annotated[str, Meta(description="The list of tests that was asked for: core, full, models and so on")]
    started: Annotated[str, Meta(description="As in ISO 8601")] = ""
    again: Annotated[str, Meta(description="The command, for PACK and OUT; with -k and an id it runs one test")] = ""


class Ran(msgspec.Struct, frozen=True):
    """A line of `results.jsonl`."""

    id: str
    result: Result
    reason: Annotated[str, Meta(description="Why it is not right: the error, the difference, the signal")] = ""
    seconds: float = 0.0
    log: Annotated[str, Meta(description="A file of the submission")] = ""


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure that is known, and does not count until a date."""

    id: Annotated[
        str | tuple[str, ...], Meta(description="The id of a test, or a pattern with * and ?, or a list of these")
    ]
    reason: Annotated[str, Meta(min_length=1)]
    link: Annotated[str, Meta(min_length=1, description="Where the defect is reported")]
    until: Annotated[date, Meta(description="The last day on which it holds")]
    versions: Annotated[tuple[str, ...], Meta(description="The versions of the runtime, or patterns such as 1.31.*")]
    results: Annotated[
        tuple[Result, ...],
        Meta(description="Which failures it covers, of wrong, crashed, hung and refused; all, if none"),
    ] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.id,) if isinstance(self.id, str) else self.id

    def names(self, test: str) -> bool:
        return any(fnmatch.fnmatchcase(test, each) for each in self.ids)

    def covers(self, test: str, result: Result, version: str, today: date) -> bool:
        return (
            today <= self.until
            and result in WAIVABLE
            and result in (self.results or WAIVABLE)
            and self.names(test)
            and any(fnmatch.fnmatchcase(version, each) for each in self.versions)
        )


class Submitted(msgspec.Struct, frozen=True):
    """A submission as it was read."""

    folder: Path
    about: Submission
    results: Mapping[str, Ran]
    waivers: list[Waiver]


def read_submission(folder: Path) -> Submitted:
    path = folder / SUBMISSION
    text = read_format(path, FORMAT, VERSION, "submission")
    about = _decode(text, Submission, path)
    results: dict[str, Ran] = {}
    lines = _read(folder / RESULTS, "submission").splitlines()
    for number, line in enumerate(lines, 1):
        place = f"{folder / RESULTS}, line {number},"
        ran = _decode(line, Ran, place)
        if ran.id in results:
            raise PackError(f"{place} is a second result for {ran.id}.")
        if ran.log:
            inside(folder, ran.log, folder / RESULTS)
        results[ran.id] = ran
    waived = folder / WAIVERS
    waivers = _decode(waived.read_bytes(), list[Waiver], waived) if waived.exists() else []
    return Submitted(folder, about, results, waivers)


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PackError(f"{path.parent} has no {path.name}: it is no {what}.") from None


def _decode(text: bytes, form: type[T], place: object) -> T:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PackError(f"{place} does not follow its schema: {error}.") from None
