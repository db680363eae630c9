"""The smallest edit of an expectations file after which it describes the results of a run.

A selector whose cells pass is narrowed along as few axes as possible, or removed; the other selectors of its entry are
kept. Unexpected failures get new entries. Each covers one stage and one error, and as many cells as it can without
covering one that passes. Selectors that need the same keys share an entry. A failure that the `error` of an entry
describes is given that entry's reason, since a person has already said what such failures have in common; of others a
person has to write the reason and the link. A property test checks that after the proposed edit the expectations
describe the run.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from onnx_parity.harness.axes import ONNXRUNTIME, OPSETS, PARITY, Dtype
from onnx_parity.harness.cell_ids import point_of
from onnx_parity.harness.expecting.expectations import (
    COMPARING,
    FOLDER,
    Expectation,
    headroom_of,
    opsets_of,
    parse_entries,
)
from onnx_parity.harness.record import Record, Stage, Status

#: The keys by which an expectation is narrowed, the most likely explanation last.
_AXES = ("capture", "device", "shapes", "exporter", "runtime", "dtype", "opset")
#: What every run has that does not ask for something else.
_USUAL = {"exporter": PARITY, "runtime": ONNXRUNTIME, "dtype": Dtype.FLOAT32.value}
_NUMBERS = re.compile(r"-?\d[\d.e+-]*")
_BLOCK = re.compile(r"^\[\[known\]\]\s*$", re.MULTILINE)
#: Stages at which a runtime or a transformation raises an error, which says itself what is wrong.
_LOUD = (Stage.TRANSFORM, Stage.LOAD, Stage.RUN)
#: The harness's own classes for such errors, which add no information.
_WRAPPED = re.compile(r"^(RuntimeFailedError|TransformationError): ")
#: How the end of a process is described, which is no word of the runtime's.
_ENDED = re.compile(r"(was killed|exited|did not end|took more) ")
#: The name of a node, which has a number after it if there are several of its operator.
_NODE_NAME = re.compile(r"\b(node_[A-Za-z]+)(?:_\*)?")
_SEVERAL_LISTS = re.compile(r"([\[(])\*([\])])(?:, [\[(]\*[\])])+")


def _says_itself(expectation: Expectation) -> bool:
    """Whether its error is one that the runtime raised, possibly when it ran with other sizes."""
    error = expectation.error
    return _WRAPPED.match(error) is not None or (expectation.stage in _LOUD and _ENDED.match(error) is None)


def _in_own_words(entry: Sequence[Expectation], failures: Iterable[Found], tracker: str) -> list[Expectation]:
    """The entry for an error, with the error of its first cell as the reason."""
    error = next(found.error for found in failures if any(each.matches(found.cell) for each in entry))
    reason = " ".join(_WRAPPED.sub("", error).split())
    return [msgspec.structs.replace(each, reason=reason, link=tracker) for each in entry]


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a cell, before expectations are applied."""

    cell: str
    name: str
    case: str
    #: None if it passed.
    stage: Stage | None
    error: str
    headroom: float | None = None

    def is_foreseen_by(self, expectation: Expectation) -> bool:
        if self.stage is None:
            return expectation.headroom is not None
        return expectation.foresees(self.stage, self.error, self.headroom)

    @classmethod
    def of(cls, record: Record) -> Found | None:
        """None for a cell that neither passed nor failed, and for one that was refused, which is not expected here."""
        if record.refused:
            return None
        match record.status:
            case Status.PASSED | Status.UNEXPECTED_PASS:
                return cls(record.cell, record.name, record.case, None, "")
            case Status.FAILED | Status.CRASHED | Status.KNOWN:
                error = record.error or record.reason
                return cls(record.cell, record.name, record.case, record.stage, error, headroom_of(record))
            case _:
                return None


@dataclass(slots=True)
class Edit:
    """The new text of a file, and what changes in it."""

    text: str
    #: One line for each change, for the user.
    changes: list[str] = field(default_factory=list)


def edit(text: str, path: Path, records: Iterable[Record], versions: Mapping[str, str], tracker: str = "") -> Edit:
    """The edit of the file's text after which the file describes the outcomes of all cells in `records`.

    `tracker` is where a runtime's own errors are reported. It is the link of new entries for them, and the error is
    their reason; a wrong result has to be explained by a person.
    """
    everything = [found for record in records if (found := Found.of(record)) is not None]
    blocks = _Blocks(text)
    changes: list[str] = []
    left = everything
    entries: dict[int, list[list[Expectation]]] = {}
    for number, entry in enumerate(parse_entries(text, path)):
        if not entry[0].applies(versions):
            continue
        kept: list[Expectation] = []
        for expectation in entry:
            taken = [found for found in left if expectation.matches(found.cell)]
            holding = [found for found in taken if found.is_foreseen_by(expectation)]
            if len(holding) == len(taken):
                kept.append(expectation)
            else:
                narrower = _narrow(expectation, holding, left) if holding else []
                kept += narrower
                changes.append(_told(expectation, narrower, _without(holding, taken)))
            left = _without(holding, left)
        entries[number] = _sharing_entries(kept)
        if kept != list(entry):
            blocks.replace(number, entries[number])
    of_runtime = path.stem if path.parent.name == FOLDER else ""
    worded = [each for kept in entries.values() for entry in kept for each in entry[:1] if _describes(each)]
    for added in _foreseeing(left, everything, of_runtime, worded):
        like = (each for each in worded if (each.stage, each.error) == (added[0].stage, added[0].error))
        if known := next(like, None):
            explained = [msgspec.structs.replace(each, reason=known.reason, link=known.link) for each in added]
            _join(explained, entries, blocks)
            changes.append(f"add {', '.join(map(_selector, added))}: fails at {known.stage}, {known.reason}")
            continue
        if tracker and _says_itself(added[0]):
            blocks.add(_in_own_words(added, (each for each in left if each.stage is not None), tracker))
            changes.append(f"add {', '.join(map(_selector, added))}: fails at {added[0].stage}")
            continue
        blocks.add(added)
        changes.append(
            f"add {', '.join(map(_selector, added))}: fails at {added[0].stage}. Write its reason and its link"
        )
    return Edit(blocks.text(), changes)


def _describes(expectation: Expectation) -> bool:
    """Whether it gives the reason of all failures with such an error, which wrong results and crashes do not have."""
    return expectation.error != "*" and not expectation.lacks and _says_itself(expectation)


def _join(added: Sequence[Expectation], entries: Mapping[int, list[list[Expectation]]], blocks: _Blocks) -> None:
    """Write new expectations into the entry that differs from them in its selectors only, or into one of their own."""
    for number, kept in entries.items():
        for entry in kept:
            if entry and msgspec.structs.replace(added[0], cells=entry[0].cells) == entry[0]:
                entry += added
                blocks.replace(number, kept)
                return
    blocks.add(added)


def _sharing_entries(expectations: Iterable[Expectation]) -> list[list[Expectation]]:
    """The expectations grouped by entry. Those that differ only in their selectors share one."""
    entries: list[list[Expectation]] = []
    for expectation in expectations:
        for entry in entries:
            if msgspec.structs.replace(expectation, cells=entry[0].cells) == entry[0]:
                entry.append(expectation)
                break
        else:
            entries.append([expectation])
    return entries


def _told(expectation: Expectation, kept: Sequence[Expectation], others: Sequence[Found]) -> str:
    passing = sum(found.stage is None for found in others)
    why = f"{passing} of its cells pass now" if passing else f"{len(others)} of its cells fail differently"
    if not kept:
        return f"remove {expectation.cells!r}: {why}"
    return f"narrow {expectation.cells!r} to {', '.join(map(_selector, kept))}: {why}"


def _selector(expectation: Expectation) -> str:
    keys = [f"{key} = {getattr(expectation, key)}" for key in _AXES if getattr(expectation, key)]
    return ", ".join([repr(expectation.cells), *keys])


def _foreseeing(
    left: Sequence[Found], everything: Sequence[Found], of_runtime: str, worded: Sequence[Expectation]
) -> list[list[Expectation]]:
    """New entries for failures: a selector for all cases of a declaration that fail alike, or one for each case.

    The file of a runtime does not have to name it in every entry. `worded` are expectations that describe an error.
    """
    groups: defaultdict[tuple[str, Stage, str], list[Found]] = defaultdict(list)
    for found in left:
        if found.stage is not None:
            known = next((each for each in worded if found.is_foreseen_by(each)), None)
            error = known.error if known else _signature(found.error)
            groups[found.name, found.stage, error].append(found)
    only = {axis: value for axis, value in _only_seen(everything).items() if value != of_runtime}
    specific: list[Expectation] = []
    entries: list[list[Expectation]] = []
    for (name, stage, error), alike in groups.items():
        pool = [found for found in everything if found.name == name]
        cases = _by_case(alike)
        # The case without attributes has no brackets.
        if len(cases) > 1 and name not in cases:
            cases = {f"{name}[": alike}
        narrowed: list[Expectation] = []
        for case, of_case in cases.items():
            cells = f"{case}*" if case.endswith("[") else f"{case}-*"
            wide = msgspec.structs.replace(Expectation(cells, stage, "", "", error), **only)
            narrowed += _narrow(wide, of_case, pool)
        # Two messages with numbers that look alike may have different reasons.
        if stage in COMPARING:
            entries += _sharing_entries(narrowed)
        else:
            specific += narrowed
    return [*_sharing_entries(specific), *entries]


def _only_seen(everything: Sequence[Found]) -> dict[str, str]:
    """The exporter, the runtime and the dtype of the run, if it had one of them that is not the usual one.

    Nothing is known of the others: a failure of somebody's exporter is not to be expected of this project's.
    """
    seen = {}
    for axis, usual in _USUAL.items():
        values = {getattr(point_of(found.cell), axis) for found in everything}
        if len(values) == 1 and not values & {usual}:
            (seen[axis],) = values
    return seen


def _narrow(wide: Expectation, holding: Sequence[Found], pool: Sequence[Found]) -> list[Expectation]:
    """Expectations that match all of `holding` and no other of `pool`: one, or one for each case or cell."""
    at_once = _along_axes(wide, holding, pool)
    if at_once is not None:
        return [at_once]
    by_case = []
    for case, alike in _by_case(holding).items():
        narrow = _along_axes(msgspec.structs.replace(wide, cells=f"{case}-*"), alike, pool)
        by_case += [narrow] if narrow else [msgspec.structs.replace(wide, cells=found.cell) for found in alike]
    return by_case


def _along_axes(wide: Expectation, holding: Sequence[Found], pool: Sequence[Found]) -> Expectation | None:
    """The expectation narrowed along the fewest axes so that it matches all of `holding` and no other of `pool`."""
    anywhere = msgspec.structs.replace(wide, **dict.fromkeys(_AXES, ""))
    others = [found for found in _without(holding, pool) if anywhere.matches(found.cell)]
    for number in range(4):
        for axes in _choices(number):
            narrow = wide
            # The opset comes last. It only has to exclude those cells that the other axes do not exclude.
            for axis in axes:
                against = [found for found in others if msgspec.structs.replace(narrow, opset="").matches(found.cell)]
                narrow = msgspec.structs.replace(narrow, **{axis: _values(axis, holding, against)})
            if not any(narrow.matches(found.cell) for found in others):
                return narrow
    return None


def _choices(number: int) -> list[tuple[str, ...]]:
    """Every choice of this number of axes, the most likely first."""
    return sorted(itertools.combinations(_AXES, number), key=lambda axes: [-_AXES.index(axis) for axis in axes[::-1]])


def _values(axis: str, holding: Sequence[Found], others: Sequence[Found]) -> str | tuple[str, ...]:
    if axis == "opset":
        return _opsets(
            {point_of(found.cell).opset for found in holding}, {point_of(each.cell).opset for each in others}
        )
    values = sorted({getattr(point_of(found.cell), axis) for found in holding})
    return values[0] if len(values) == 1 else tuple(values)


def _opsets(wanted: set[int], against: set[int]) -> str:
    """The simplest text that covers every opset in `wanted` and, if possible, none in `against`."""
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
    """An error with its numbers, and lists of them, replaced by `*`, since they differ from cell to cell."""
    pattern, before = re.sub(r"\*[\s,*]*\*", "*", _NUMBERS.sub("*", error)), ""
    while pattern != before:
        before, pattern = pattern, _SEVERAL_LISTS.sub(r"\1*\2", pattern)
    return _NODE_NAME.sub(r"\1*", pattern)


def _by_case(found: Sequence[Found]) -> dict[str, list[Found]]:
    cases: defaultdict[str, list[Found]] = defaultdict(list)
    for each in found:
        cases[each.case].append(each)
    return cases


class _Blocks:
    """The `[[known]]` blocks of a file as text. Unchanged blocks keep every character, including comments."""

    def __init__(self, text: str) -> None:
        starts = [found.start() for found in _BLOCK.finditer(text)]
        self._head = text[: starts[0]] if starts else text
        self._added: list[str] = []
        self._blocks = [text[start:end] for start, end in itertools.pairwise([*starts, len(text)])]

    def replace(self, number: int, entries: Sequence[Sequence[Expectation]]) -> None:
        # Text after the last key belongs to the next block, as its comment.
        block = self._blocks[number]
        lines = block.splitlines(keepends=True)
        # The last key may be a list over several lines, which ends with a bracket.
        last = max(
            position
            for position, line in enumerate(lines)
            if not line.startswith("#") and ("=" in line or line[0] == "]")
        )
        after = "".join(lines[last + 1 :]).removeprefix("\n")
        self._blocks[number] = "".join(f"{_write_entry(entry)}\n" for entry in entries) + after

    def add(self, entry: Sequence[Expectation]) -> None:
        self._added.append(_write_entry(entry))

    def text(self) -> str:
        kept = self._head + "".join(self._blocks)
        if not self._added:
            return kept
        return "\n".join([*([kept.rstrip("\n") + "\n"] if kept.strip() else []), *self._added])


def _write_entry(entry: Sequence[Expectation]) -> str:
    """The text of an entry, whose expectations differ only in their selectors."""
    first = entry[0]
    lines = ["[[known]]", f"cells  = {_selectors([each.cells for each in entry])}"]
    for key in (*reversed(_AXES), "packages", "stage", "headroom", "error", "reason", "link"):
        value = getattr(first, key)
        if (value and (key, value) != ("error", "*")) or key in ("reason", "link"):
            lines.append(f"{key:6} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _selectors(cells: Sequence[str]) -> str:
    if len(cells) == 1:
        return _toml(cells[0])
    # One line each, so that a selector that is added or removed is a difference of one line.
    return "".join(["[\n", *(f"    {_toml(each)},\n" for each in cells), "]"])


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return str(value)
    return json.dumps(str(value), ensure_ascii=False)
