"""Expectations: known failures, with the stage, the reason and a link. They fail the run if they are no longer true.

They are in an `expectations.toml` beside the declarations whose cells they describe:

    [[known]]
    cells  = ["topk[k=0]-*", "sort_nothing[*]-*"]
    opset  = "<10"
    stage  = "load"
    error  = "*kernel*"
    reason = "the CPU kernel rejects an empty axis before opset 10"
    link   = "https://github.com/microsoft/onnxruntime/issues/..."

`cells` is a selector, or a list of selectors that fail for the same reason. A selector matches the ids of cells: `*`
matches anything and `?` one character; `opset<10`, `opset<=9`, `opset>12`, `opset>=13` and `opset9-12` match the opsets
in that range; all other characters, including brackets, match themselves.

The other keys narrow all selectors of the entry: `opset` (`"<10"`, `"7-9,13"`), `dtype`, `device`, `capture`,
`exporter`, `runtime` and `shapes` (a text or a list of texts), and `packages` (`{ onnxruntime = "<1.32" }`, in pip's
notation; with other versions, or without the package, the entry is ignored). `error` is a pattern that the failure's
message must match.

Runtimes of other projects, and transformations, have a file each in the folder `expectations/`, such as
`expectations/openvino.toml`; `:` is written `_` in the name of a file. Only that file is read for the cells of such a
runtime, so that no expectation of onnxruntime's is asked of it. For a transformed cell the files of its transformations
are read first; what is known of the exported model then explains a failure too, but need not happen.

`headroom` is for errors of the size of rounding, which exceed the tolerance on some processors and not on others:
with `headroom = 0.5` a failure of a comparison is known, at whichever stage that compares outputs, if the tolerance is
at least half of the error; and the cells may pass.

An entry whose reason or link is not written yet, as `parity expect --update` leaves it, expects nothing: its cells
fail, and say what is missing. All other entries hold.

A cell that passes although a selector matches it fails the run, and so does a selector that matches no cell; each
selector of a list is checked separately. A failure at another stage or with another message than expected is not the
known failure.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from onnx_parity.harness.axes import ADAPTERS, OPSETS, THEN
from onnx_parity.harness.cell_ids import point_of
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.results.environment import package_versions

T = TypeVar("T")

FILE = "expectations.toml"
#: The folder of the files of runtimes and transformations, beside `FILE`.
FOLDER = "expectations"

_OPSETS = re.compile(r"opset(?:(?P<relation><=|>=|<|>)(?P<bound>\d+)|(?P<low>\d+)-(?P<high>\d+))")

_WILD = re.compile(rf"[*?]|{_OPSETS.pattern}")

#: The keys that narrow an entry to some points of an axis, each a text or several.
AXES = ("dtype", "device", "capture", "exporter", "runtime", "shapes")

#: Stages that compare outputs with torch's. Their messages contain numbers.
COMPARING = (Stage.COMPARE, Stage.RERUN_VALUES, Stage.RERUN_SIZES)

_WENT_WRONG = (Status.FAILED, Status.CRASHED)


class ExpectationError(Exception):
    """An expectations file that cannot be read. The message has the place, and what the file should contain."""


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One selector, with the known failure of the cells that it matches."""

    cells: str
    stage: Stage
    reason: str = ""
    link: str = ""
    error: str = "*"
    opset: str = ""
    dtype: str | tuple[str, ...] = ()
    device: str | tuple[str, ...] = ()
    capture: str | tuple[str, ...] = ()
    exporter: str | tuple[str, ...] = ()
    runtime: str | tuple[str, ...] = ()
    shapes: str | tuple[str, ...] = ()
    packages: dict[str, str] = {}
    headroom: float | None = None

    @property
    def lacks(self) -> str:
        """What a person has yet to write of it: `a reason and a link`; empty if it is complete."""
        texts = (("a reason", self.reason), ("a link", self.link))
        return " and ".join(what for what, text in texts if not text.strip())

    def matches(self, cell: str) -> bool:
        """Whether the selector matches the cell of this id."""
        return _pattern(self.cells).fullmatch(cell) is not None and self._holds_of(cell)

    def _holds_of(self, cell: str) -> bool:
        narrowed = {axis: given for axis in AXES if (given := getattr(self, axis))}
        if not self.opset and not narrowed:
            return True
        point = point_of(cell)
        return all(
            getattr(point, axis) in ((given,) if isinstance(given, str) else given) for axis, given in narrowed.items()
        ) and (not self.opset or point.opset in opsets_of(self.opset))

    def applies(self, versions: Mapping[str, str]) -> bool:
        """Whether it applies in an environment with these packages."""
        return all(
            package in versions and SpecifierSet(wanted).contains(versions[package], prereleases=True)
            for package, wanted in self.packages.items()
        )

    def may_match(self, beginning_of_id: str) -> bool:
        """Whether it can match cells whose ids begin with this. Most selectors begin with a name or a case."""
        return self.beginning.startswith(beginning_of_id) or beginning_of_id.startswith(self.beginning)

    @property
    def beginning(self) -> str:
        """What the ids of all cells that it matches begin with."""
        return _beginning(self.cells)

    def foresees(self, stage: Stage, error: str, headroom: float | None = None) -> bool:
        """Whether a failure is the expected one, where `headroom` is that of the outputs if they were compared."""
        if _words(self.error).fullmatch(error) is None:
            return False
        if self.headroom is None:
            return stage is self.stage
        return stage in COMPARING and headroom is not None and headroom >= self.headroom

    def apply(self, record: Record) -> Record:
        """The record of a cell that this matches, with the status that the expectation gives it."""
        if self.lacks:
            if record.status not in _WENT_WRONG:
                return record
            reason = f"{record.reason}; {FILE} expects it, but {self.cells!r} has yet to be given {self.lacks}"
            return msgspec.structs.replace(record, reason=reason, error=record.reason)
        if record.status is Status.PASSED and self.headroom is not None:
            return record
        if record.status is Status.PASSED:
            reason = f"expected to fail at {self.stage}: {self.reason}. It passes now: narrow or remove {self.cells!r}"
            return msgspec.structs.replace(record, status=Status.UNEXPECTED_PASS, reason=reason, link=self.link)
        if record.status not in _WENT_WRONG:
            return record
        if self.foresees(record.stage, record.reason, headroom_of(record)):
            return msgspec.structs.replace(
                record, status=Status.KNOWN, reason=self.reason, link=self.link, error=record.reason
            )
        otherwise = ""
        if self.headroom is not None and record.stage in COMPARING:
            otherwise = f" with an error of more than {1 / self.headroom:g} tolerances, or another than {self.error!r}"
        elif record.stage is self.stage:
            otherwise = f" with another error than {self.error!r}"
        reason = (
            f"expected to fail at {self.stage} ({self.reason}), failed at {record.stage}{otherwise}: {record.reason}"
        )
        return msgspec.structs.replace(record, reason=reason, error=record.reason)


def headroom_of(record: Record) -> float | None:
    """The headroom of a cell's outputs; None if they were not compared."""
    return None if record.metrics is None else record.metrics.headroom


def file_of(subject: str) -> str:
    """The file of a runtime or a transformation, below the folder of the declarations."""
    return f"{FOLDER}/{subject.replace(':', '_')}.toml" if subject else FILE


def subject_of(runtime: str, transforms: Sequence[str]) -> str:
    """The runtime or transformation to whose file an expectation of a cell belongs; empty for that of all others."""
    return transforms[-1] if transforms else runtime if runtime in ADAPTERS else ""


def _files_of(record: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files whose expectations a cell must meet, and those that may explain a failure of it."""
    of_runtime = (file_of(subject_of(record.runtime, ())),)
    if not record.transforms:
        return of_runtime, ()
    return tuple(map(file_of, record.transforms.split(THEN))), of_runtime


def read_if_there(path: Path, convert: Callable[[dict[str, Any]], T]) -> T | None:
    """What a file in TOML is converted to; None where there is none, so that nothing is judged by it."""
    try:
        return convert(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, InvalidSpecifier) as error:
        raise ExpectationError(f"{path}: {error}") from error


@cache
def load(path: Path) -> tuple[Expectation, ...]:
    """The expectations in a file; none if the file does not exist."""
    try:
        return parse(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        return ()
    except UnicodeDecodeError as error:
        raise ExpectationError(f"{path}: the file is not encoded in UTF-8: {error}") from error


def parse(text: str, path: Path) -> tuple[Expectation, ...]:
    """The expectations in the text of a file, in their order: the first one that matches a cell decides."""
    return tuple(itertools.chain.from_iterable(parse_entries(text, path)))


def parse_entries(text: str, path: Path) -> list[tuple[Expectation, ...]]:
    """The expectations of each `[[known]]` in the text of a file: one for each of its selectors."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExpectationError(f"{path}: {error}") from error
    entries = tables.pop("known", [])
    if tables:
        raise ExpectationError(f"{path}: it contains {', '.join(tables)}, but may contain only [[known]]")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ExpectationError(f"{path}: write [[known]] with two brackets before each known failure")
    return [_of_entry(entry, f"{path}: [[known]] number {number}") for number, entry in enumerate(entries, 1)]


def _of_entry(entry: Mapping[str, object], where: str) -> tuple[Expectation, ...]:
    selectors = entry.get("cells")
    if selectors == []:
        raise ExpectationError(f"{where}: cells is an empty list. Write a selector, or remove the entry.")
    several = selectors if isinstance(selectors, list) else [selectors]
    for number, selector in enumerate(several):
        if selector in several[:number]:
            raise ExpectationError(f"{where}: cells names {selector!r} twice. Remove one of the two.")
    # If `cells` is missing, msgspec reports it.
    written = [{**entry, "cells": selector} for selector in several] if "cells" in entry else [entry]
    try:
        expectations = tuple(msgspec.convert(each, Expectation, strict=True) for each in written)
    except msgspec.ValidationError as error:
        raise ExpectationError(
            f"{where}: {error}. A [[known]] has cells (a selector or a list of them), stage (one of "
            f"{', '.join(Stage)}), reason and link, and may have {', '.join(Expectation.__struct_fields__[4:])}."
        ) from error
    for expectation in expectations:
        if problem := _problem(expectation):
            raise ExpectationError(f"{where}, {expectation.cells!r}, {problem}")
    return expectations


def _problem(expectation: Expectation) -> str:
    """A description of the mistake in an expectation whose keys and types are right; empty if there is none."""
    try:
        for wanted in expectation.packages.values():
            SpecifierSet(wanted)
    except InvalidSpecifier as error:
        return f"has packages that are not in pip's notation: {error}"
    headroom = expectation.headroom
    if headroom is not None and (not 0 < headroom < 1 or expectation.stage not in COMPARING):
        return (
            f"has headroom = {headroom:g} and stage = {expectation.stage}. "
            f"Write a number above 0 and below 1, and one of the stages {', '.join(COMPARING)}."
        )
    if expectation.opset and not opsets_of(expectation.opset):
        of = f"of {OPSETS[0]} to {OPSETS[-1]}"
        return f"has opset = {expectation.opset!r}. Write '<10', '>=13', '9' or '7-9,13', {of}."
    return ""


def apply_expectations(record: Record, directory: Path) -> Record:
    """The record with the status that the expectations beside its declaration give it. The first match decides."""
    binding, explaining = _files_of(record)
    for file in (*binding, *explaining):
        if file in explaining and record.status is Status.PASSED:
            break
        for expectation in _speaking_of(record.case, directory / file):
            if expectation.matches(record.cell) and _applies_here(expectation):
                return expectation.apply(record)
    return record


def is_explained_elsewhere(record: Record, directory: Path) -> bool:
    """Whether the expectations of the exported model explain the failure of a transformed one."""
    return any(
        expectation.matches(record.cell)
        and _applies_here(expectation)
        and not expectation.lacks
        and expectation.foresees(record.stage, record.error or record.reason, headroom_of(record))
        for file in _files_of(record)[1]
        for expectation in _speaking_of(record.case, directory / file)
    )


@lru_cache(maxsize=16)
def _speaking_of(case: str, path: Path) -> tuple[Expectation, ...]:
    """The expectations that can match a cell of this case. Cached, because the cells of a case are adjacent."""
    return tuple(expectation for expectation in load(path) if expectation.may_match(case))


def _applies_here(expectation: Expectation) -> bool:
    return expectation.applies(_versions_here(tuple(expectation.packages)))


def lacks_package(expectation: Expectation) -> bool:
    """Whether a package is not installed that an expectation is about."""
    return not expectation.packages.keys() <= _versions_here(tuple(expectation.packages)).keys()


@cache
def _versions_here(packages: tuple[str, ...]) -> dict[str, str]:
    return package_versions(packages)


@cache
def opsets_of(text: str) -> frozenset[int]:
    """`<10` or `7-9,13` as a set of opsets; empty if the text is neither."""
    chosen: set[int] = set()
    for part in text.split(","):
        found = _OPSETS.fullmatch(f"opset{part.strip()}")
        if found:
            chosen.update(_opsets(found))
        elif part.strip().isdecimal() and int(part) in OPSETS:
            chosen.add(int(part))
        else:
            return frozenset()
    return frozenset(chosen)


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


@cache
@cache
def _beginning(cells: str) -> str:
    return _WILD.split(cells, maxsplit=1)[0]


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(_wildcards(pattern), re.DOTALL)


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
