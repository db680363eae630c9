"""Expectations: known failures, written down with the stage, the reason and a link, strict both ways.

They stand in an `expectations.toml` beside the declarations that they speak of:

    [[known]]
    cells  = "topk[k=0]-*-opset<10-*"
    stage  = "load"
    reason = "the CPU kernel rejects k=0 before opset 10"
    link   = "https://github.com/microsoft/onnxruntime/issues/..."

In a selector `*` stands for anything and `?` for one character; `opset<10`, `opset<=9`, `opset>12`, `opset>=13` and
`opset9-12` stand for the opsets that they describe; everything else, brackets included, for itself.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from harness.axes import OPSETS
from harness.record import Record, Stage, Status

FILE = "expectations.toml"

_OPSETS = re.compile(r"opset(?:(?P<relation><=|>=|<|>)(?P<bound>\d+)|(?P<low>\d+)-(?P<high>\d+))")

_WILD = re.compile(rf"[*?]|{_OPSETS.pattern}")


_WENT_WRONG = (Status.FAILED, Status.CRASHED)


class ExpectationError(Exception):
    """An expectations file that cannot be read. The message says where and what it should hold."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One known failure."""

    cells: str
    stage: Stage
    reason: str
    link: str

    def matches(self, cell: str) -> bool:
        return _pattern(self.cells).fullmatch(cell) is not None

    def may_match(self, name: str) -> bool:
        """Whether it can speak of cells whose ids begin with this name: most selectors begin with one, too."""
        beginning = _WILD.split(self.cells, maxsplit=1)[0]
        return beginning.startswith(name) or name.startswith(beginning)

    def apply(self, record: Record) -> Record:
        """The record of a cell that this speaks of, as it counts now."""
        if record.status in _WENT_WRONG and record.stage is self.stage:
            return msgspec.structs.replace(
                record, status=Status.KNOWN, reason=self.reason, link=self.link, error=record.reason
            )
        if record.status in _WENT_WRONG:
            reason = f"expected to fail at {self.stage} ({self.reason}), failed at {record.stage}: {record.reason}"
            return msgspec.structs.replace(record, reason=reason)
        if record.status is Status.PASSED:
            reason = f"expected to fail at {self.stage}: {self.reason}. It passes now: narrow or remove {self.cells!r}"
            return msgspec.structs.replace(record, status=Status.UNEXPECTED_PASS, reason=reason, link=self.link)
        return record


@cache
def load(path: Path) -> tuple[Expectation, ...]:
    """The expectations in a file; none where there is no file."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("known", [])
    except FileNotFoundError:
        return ()
    except tomllib.TOMLDecodeError as error:
        raise ExpectationError(f"{path}: {error}") from error
    try:
        return tuple(msgspec.convert(entries, list[Expectation], strict=True))
    except msgspec.ValidationError as error:
        raise ExpectationError(
            f"{path}: {error}. A [[known]] has four texts: cells, stage (one of {', '.join(Stage)}), reason, link."
        ) from error


def expected(record: Record, directory: Path) -> Record:
    """The record as the expectations beside its declaration have it; the first that matches decides."""
    for expectation in load(directory / FILE):
        if expectation.matches(record.cell):
            return expectation.apply(record)
    return record


@cache
def _pattern(selector: str) -> re.Pattern[str]:
    parts = []
    end = 0
    for found in _OPSETS.finditer(selector):
        parts.append(_wildcards(selector[end : found.start()]))
        parts.append(f"opset(?:{'|'.join(map(str, _opsets(found)))})(?![0-9])")
        end = found.end()
    parts.append(_wildcards(selector[end:]))
    return re.compile("".join(parts))


def _wildcards(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")


def _opsets(found: re.Match[str]) -> list[int]:
    if found["relation"] is None:
        return [opset for opset in OPSETS if int(found["low"]) <= opset <= int(found["high"])]
    bound = int(found["bound"])
    match found["relation"]:
        case "<":
            return [opset for opset in OPSETS if opset < bound]
        case "<=":
            return [opset for opset in OPSETS if opset <= bound]
        case ">":
            return [opset for opset in OPSETS if opset > bound]
        case _:
            return [opset for opset in OPSETS if opset >= bound]
