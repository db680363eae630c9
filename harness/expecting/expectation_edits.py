"""The smallest edit of an expectations file after which it says what a run found.

An expectation whose cells pass is narrowed along as few axes as can be, or removed; failures that nothing foresees get
an entry each, of one stage and one error, as wide as no cell that passes allows. Its reason and its link are left to
the person who knows them: until they are written, the file is refused.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from onnx_parity.harness.axes import OPSETS
from onnx_parity.harness.expecting.expectations import Expectation, Point, opsets_of, parse
from onnx_parity.harness.record import Record, Stage, Status

#: The keys by which an expectation is narrowed, those that explain most last.
_AXES = ("capture", "device", "shapes", "exporter", "runtime", "dtype", "opset")
_POSITIONS = {"dtype": 0, "device": 1, "capture": 2, "exporter": 3, "runtime": 4, "shapes": 5}
_NUMBERS = re.compile(r"-?\d[\d.e+-]*")
_BLOCK = re.compile(r"^\[\[known\]\]\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """What a cell did, before any expectation was asked."""

    cell: str
    name: str
    case: str
    #: None where it passed.
    stage: Stage | None
    error: str

    def is_foreseen_by(self, expectation: Expectation) -> bool:
        return self.stage is not None and expectation.foresees(self.stage, self.error)

    @classmethod
    def of(cls, record: Record) -> Found | None:
        """None of a cell that neither passed nor failed."""
        match record.status:
            case Status.PASSED | Status.UNEXPECTED_PASS:
                return cls(record.cell, record.name, record.case, None, "")
            case Status.FAILED | Status.CRASHED | Status.KNOWN:
                return cls(record.cell, record.name, record.case, record.stage, record.error or record.reason)
            case _:
                return None


@dataclass(slots=True)
class Edit:
    """A file as it is to be, and what of it changes."""

    text: str
    #: One line a change, for the person who asked.
    changes: list[str] = field(default_factory=list)


def edit(text: str, path: Path, records: Iterable[Record], versions: Mapping[str, str]) -> Edit:
    """The file's text so that every cell in `records` ended as it says."""
    everything = [found for record in records if (found := Found.of(record)) is not None]
    blocks = _Blocks(text)
    changes: list[str] = []
    left = everything
    for number, expectation in enumerate(parse(text, path)):
        if not expectation.applies(versions):
            continue
        taken = [found for found in left if expectation.matches(found.cell)]
        holding = [found for found in taken if found.is_foreseen_by(expectation)]
        if len(holding) == len(taken):
            left = _without(taken, left)
            continue
        kept = _narrowed(expectation, holding, left) if holding else []
        blocks.replace(number, kept)
        changes.append(_told(expectation, kept, _without(holding, taken)))
        left = _without(holding, left)
    for added in _foreseeing(left, everything):
        blocks.add(added)
        changes.append(f"add {_selector(added)}: fails at {added.stage}. Write its reason and its link")
    return Edit(blocks.text(), changes)


def _told(expectation: Expectation, kept: Sequence[Expectation], others: Sequence[Found]) -> str:
    passing = sum(found.stage is None for found in others)
    why = f"{passing} of its cells pass now" if passing else f"{len(others)} of its cells fail otherwise"
    if not kept:
        return f"remove {expectation.cells!r}: {why}"
    return f"narrow {expectation.cells!r} to {', '.join(map(_selector, kept))}: {why}"


def _selector(expectation: Expectation) -> str:
    keys = [f"{key} = {getattr(expectation, key)}" for key in _AXES if getattr(expectation, key)]
    return ", ".join([repr(expectation.cells), *keys])


def _foreseeing(left: Sequence[Found], everything: Sequence[Found]) -> Iterator[Expectation]:
    """New expectations for failures: one for all cases of a declaration that fail alike, or one a case."""
    groups: defaultdict[tuple[str, Stage, str], list[Found]] = defaultdict(list)
    for found in left:
        if found.stage is not None:
            groups[found.name, found.stage, _signature(found.error)].append(found)
    for (name, stage, error), alike in groups.items():
        pool = [found for found in everything if found.name == name]
        cases = {found.case for found in alike}
        cells = f"{cases.pop()}-*" if len(cases) == 1 else f"{name}[*"
        yield from _narrowed(Expectation(cells, stage, "", "", error), alike, pool)


def _narrowed(wide: Expectation, holding: Sequence[Found], pool: Sequence[Found]) -> list[Expectation]:
    """What takes all of `holding` and nothing else of `pool`: one expectation, or one a case, or one a cell."""
    at_once = _along_axes(wide, holding, pool)
    if at_once is not None:
        return [at_once]
    by_case = []
    for case, alike in _by_case(holding).items():
        narrow = _along_axes(msgspec.structs.replace(wide, cells=f"{case}-*"), alike, pool)
        by_case += [narrow] if narrow else [msgspec.structs.replace(wide, cells=found.cell) for found in alike]
    return by_case


def _along_axes(wide: Expectation, holding: Sequence[Found], pool: Sequence[Found]) -> Expectation | None:
    """The expectation narrowed along the fewest axes that keep all of `holding` and nothing else of `pool`."""
    anywhere = msgspec.structs.replace(wide, **dict.fromkeys(_AXES, ""))
    others = [found for found in _without(holding, pool) if anywhere.matches(found.cell)]
    for number in range(4):
        for axes in _choices(number):
            narrow = wide
            # The opset last, against those only that the other axes let through.
            for axis in axes:
                against = [found for found in others if msgspec.structs.replace(narrow, opset="").matches(found.cell)]
                narrow = msgspec.structs.replace(narrow, **{axis: _values(axis, holding, against)})
            if not any(narrow.matches(found.cell) for found in others):
                return narrow
    return None


def _choices(number: int) -> list[tuple[str, ...]]:
    """Every choice of so many axes, the likeliest first."""
    return sorted(itertools.combinations(_AXES, number), key=lambda axes: [-_AXES.index(axis) for axis in axes[::-1]])


def _values(axis: str, holding: Sequence[Found], others: Sequence[Found]) -> str | tuple[str, ...]:
    if axis == "opset":
        return _opsets(
            {Point.of(found.cell).opset for found in holding}, {Point.of(each.cell).opset for each in others}
        )
    values = sorted({Point.of(found.cell).axes[_POSITIONS[axis]] for found in holding})
    return values[0] if len(values) == 1 else tuple(values)


def _opsets(wanted: set[int], against: set[int]) -> str:
    """The simplest text that holds every opset wanted and, where that can be, none against."""
    free = against - wanted
    low, high = min(wanted), max(wanted)
    if free and high < min(free):
        return f"<={high}"
    if free and low > max(free):
        return f">={low}"
    spans: list[list[int]] = []
    for opset in (each for each in OPSETS if low <= each <= high and each not in free):
        if spans and opset == spans[-1][1] + 1:
            spans[-1][1] = opset
        else:
            spans.append([opset, opset])
    kept = [(first, last) for first, last in spans if any(first <= opset <= last for opset in wanted)]
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in kept)
    assert wanted <= opsets_of(text)
    return text


def _without(taken: Iterable[Found], of: Iterable[Found]) -> list[Found]:
    cells = {found.cell for found in taken}
    return [found for found in of if found.cell not in cells]


def _signature(error: str) -> str:
    """An error without what changes from one cell to the next."""
    return re.sub(r"\*[\s,*]*\*", "*", _NUMBERS.sub("*", error))


def _by_case(found: Sequence[Found]) -> dict[str, list[Found]]:
    cases: defaultdict[str, list[Found]] = defaultdict(list)
    for each in found:
        cases[each.case].append(each)
    return cases


class _Blocks:
    """The `[[known]]` of a file as text: those that do not change keep every character, comments included."""

    def __init__(self, text: str) -> None:
        starts = [found.start() for found in _BLOCK.finditer(text)]
        self._head = text[: starts[0]] if starts else text
        self._added: list[str] = []
        self._blocks = [text[start:end] for start, end in itertools.pairwise([*starts, len(text)])]

    def replace(self, number: int, kept: Sequence[Expectation]) -> None:
        # What follows the last key belongs to the next block: its comment.
        block = self._blocks[number]
        lines = block.splitlines(keepends=True)
        keys = max(position for position, line in enumerate(lines) if "=" in line and not line.startswith("#"))
        after = "".join(lines[keys + 1 :]).removeprefix("\n")
        self._blocks[number] = "".join(f"{_written(each)}\n" for each in kept) + after

    def add(self, expectation: Expectation) -> None:
        self._added.append(_written(expectation))

    def text(self) -> str:
        kept = self._head + "".join(self._blocks)
        if not self._added:
            return kept
        return "\n".join([*([kept.rstrip("\n") + "\n"] if kept.strip() else []), *self._added])


def _written(expectation: Expectation) -> str:
    lines = ["[[known]]"]
    for key in ("cells", *reversed(_AXES), "packages", "stage", "error", "reason", "link"):
        value = getattr(expectation, key)
        if (value and (key, value) != ("error", "*")) or key in ("reason", "link"):
            lines.append(f"{key:6} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(str(value), ensure_ascii=False)
