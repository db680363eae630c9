"""What the exporter refuses: a file beside the declarations, strict in both directions.

A lowering that breaks may refuse what it exported before, and a refusal alone fails no run. So `unsupported.toml` says
which cells are refused. A cell that is refused without being named there fails, and so does one that is named and
passes. `parity expect --update` writes the file from a run, and a person reviews the difference:

    tier = "default"
    torch = "==2.13.*"

    ["*"]
    "<13" = ["bfloat16"]

    [sorting]
    "<10" = ["topk_dynamic"]
    "<11" = [
        "sort[descending=True] int64",
        "unique dynamic",
    ]

Each table is a file of declarations, or `*` for all. Its keys are opsets, as in an `expectations.toml`, and `*` for
all. Each text names a declaration or one of its cases (`topk[]` is the case without attributes), and may narrow it to a
dtype, or to `static` or `dynamic` sizes; in the table `*` it has no name. `tier` is the tier that the file is complete
for: cells that this tier does not have are not judged, and none with another torch, which decomposes operators in other
ways. The file is about this project's exporter and programs that are captured by tracing.

Where there is no such file, a refusal that a later opset lifts fails nothing, and one that no opset lifts fails.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from onnx_parity.harness.axes import OPSETS, PARITY, Capture, Dtype, Shapes, Tier
from onnx_parity.harness.expecting.expectations import ExpectationError, opsets_of
from onnx_parity.harness.record import AT_A_LATER_OPSET, Blame, Record, Status
from onnx_parity.harness.results.environment import has_version

FILE = "unsupported.toml"
#: The table for all files, and the key for all opsets.
EVERY = "*"


class Refused(msgspec.Struct, frozen=True):
    """One text of the file, read: cells that are refused."""

    #: The stem of the declarations' file, or `*`.
    family: str
    #: A declaration's name, or a case; empty for all.
    name: str
    #: Empty for all.
    dtype: str
    shapes: str
    #: The opsets as they are written.
    opsets: str

    @property
    def text(self) -> str:
        return " ".join(filter(None, (self.name, self.dtype, self.shapes)))

    def at(self) -> frozenset[int]:
        return frozenset(OPSETS) if self.opsets == EVERY else opsets_of(self.opsets)

    def names(self, family: str, case: str, dtype: str, shapes: str) -> bool:
        """Whether it names these cells, at its opsets."""
        return (
            self.family in (EVERY, family)
            and self.name in ("", exactly(case), case.partition("[")[0])
            and self.dtype in ("", dtype)
            and self.shapes in ("", shapes)
        )


def exactly(case: str) -> str:
    """The text that names this case alone: without brackets it would name every case of its declaration."""
    return case if "[" in case else f"{case}[]"


class Unsupported(msgspec.Struct, frozen=True):
    """A file, read."""

    tier: Tier
    #: The versions of torch that it holds for, in pip's notation; empty for all.
    torch: str
    refused: tuple[Refused, ...]

    @property
    def named(self) -> tuple[Refused, ...]:
        return self.refused

    def holds(self, family: str, case: str, dtype: str, shapes: str, opset: int) -> bool:
        """Whether it says that these cells are refused at the opset."""
        return any(each.names(family, case, dtype, shapes) and opset in each.at() for each in self.refused)

    def holds_here(self) -> bool:
        """Whether it applies to the torch of this environment."""
        return has_version("torch", self.torch)

    def agrees(self, record: Record, *, refused: bool) -> bool:
        return self.holds(record.family, record.case, record.dtype, record.shapes, record.opset) is refused


def load(path: Path) -> Unsupported | None:
    """The file; None where there is none, so that nothing is judged by it."""
    try:
        return parse(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ExpectationError(f"{path}: the file is not encoded in UTF-8: {error}") from error


@cache
def parse(text: str, path: Path) -> Unsupported:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExpectationError(f"{path}: {error}") from error
    tier, torch = tables.pop("tier", None), tables.pop("torch", "")
    if tier not in list(Tier):
        raise ExpectationError(f"{path}: tier = {tier!r}. Write the tier that it is complete for: {', '.join(Tier)}.")
    try:
        SpecifierSet(torch)
    except (InvalidSpecifier, TypeError, AttributeError) as error:
        raise ExpectationError(f"{path}: torch = {torch!r} is not in pip's notation, such as '==2.13.*'.") from error
    return Unsupported(Tier(tier), torch, tuple(_entries(tables, path)))


def _entries(tables: Mapping[str, object], path: Path) -> Iterator[Refused]:
    for family, table in tables.items():
        if not isinstance(table, dict):
            raise ExpectationError(f"{path}: {family} is neither tier nor a table of a file of declarations.")
        for opsets, texts in table.items():
            if opsets != EVERY and not opsets_of(opsets):
                raise ExpectationError(
                    f"{path}: [{family}] has {opsets!r}. Write '<10', '>=13', '9', '7-9,13' or '*', "
                    f"of {OPSETS[0]} to {OPSETS[-1]}."
                )
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise ExpectationError(f"{path}: [{family}] {opsets!r} is no list of texts such as 'topk[k=0] int64'.")
            yield from (entry(family, opsets, text, path) for text in texts)


def entry(family: str, opsets: str, text: str, path: Path) -> Refused:
    """The cells that a text of a table names."""
    *names, dtype, shapes = _split(text.split())
    if len(names) > 1 or (family == EVERY) == bool(names):
        name = "" if family == EVERY else "the name of a declaration or a case, and perhaps "
        raise ExpectationError(f"{path}: [{family}] {opsets!r} has {text!r}. Write {name}a dtype, static or dynamic.")
    return Refused(family, "".join(names), dtype, shapes, opsets)


def _split(words: list[str]) -> list[str]:
    """The words, with the dtype and the shapes as the last two; empty for one that is not there."""
    shapes = words.pop() if words and words[-1] in list(Shapes) else ""
    dtype = words.pop() if words and words[-1] in list(Dtype) else ""
    return [*words, dtype, shapes]


def is_judged(record: Record) -> bool:
    """Whether such a file applies to cells like this one. What is drawn differs with the seed."""
    return record.exporter == PARITY and record.capture == Capture.TRACE and not record.case.endswith("[drawn]")


def judge_record(record: Record, directory: Path, is_in_tier: Callable[[Tier], bool]) -> Record:
    """The record with the status that the file beside its declaration gives it."""
    if record.status not in (Status.UNSUPPORTED, Status.PASSED) or not is_judged(record):
        return record
    file = load_once(directory / FILE)
    if file is None:
        is_lifted = record.status is Status.PASSED or AT_A_LATER_OPSET in record.reason
        return record if is_lifted else _never_exported(record)
    if file.agrees(record, refused=record.status is Status.UNSUPPORTED):
        return record
    if not file.holds_here() or not is_in_tier(file.tier):
        return record
    if record.status is Status.PASSED:
        reason = f"{FILE} says that it is refused, and it passes now: `parity expect --update` corrects the file"
        return msgspec.structs.replace(record, status=Status.UNEXPECTED_PASS, reason=reason)
    return _refused(record, f"it is refused, and {FILE} does not say so: {record.reason}")


def _never_exported(record: Record) -> Record:
    """A cell that is refused at every opset, where no file lists refusals: its operator may be one of the project's."""
    return _refused(
        record,
        f"no opset can express it: {record.reason}. Write a lowering for it with @onnx_parity.lowering, or list it as "
        f"refused: `parity expect --update` writes {FILE}",
    )


def _refused(record: Record, reason: str) -> Record:
    return msgspec.structs.replace(
        record, status=Status.FAILED, blame=Blame.EXPORTER, refused=True, reason=reason, error=record.reason
    )


@cache
def load_once(path: Path) -> Unsupported | None:
    return load(path)
