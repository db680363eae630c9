"""Which cases of a run are drawn, and the processes that draw them. Imports neither torch nor onnx."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path

import msgspec

from onnx_parity.harness.axes import EXPORTER_NAMES, RUNTIME_NAMES
from onnx_parity.harness.drawing.drawings import FOLDER, blank_drawing, drawings_of, keep_drawing
from onnx_parity.harness.record import WRONG, Record, RunInfo, Status
from onnx_parity.harness.results.causes import causes_of
from onnx_parity.harness.results.content import hash_declaration
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.worker_process import WorkerProcess
from onnx_parity.harness.store import read_columns, read_records

#: Without patterns, all cases of a run that has no more than this are drawn, and of others one case of each cause
#: of failures, up to this number.
FEW = 20
#: A case that takes longer is given up.
_SECONDS_OF_A_CASE = 120.0
#: Of a large run, causes are looked for among as many wrong cells.
_MOST_WRONG = 20_000


class Task(msgspec.Struct, frozen=True):
    #: The cell that is drawn, and the opsets at which it is exported.
    record: Record
    opsets: list[int]
    #: The file of the drawing.
    file: str
    #: For each other exporter of the run, a cell that differs in it alone.
    others: list[Record] = []


def tasks(
    run: Path,
    places: Sequence[Path],
    patterns: Sequence[str] | None = None,
    *,
    any_subject: bool = False,
    only_wrong: bool = False,
) -> list[Task]:
    """What there is to draw of a run: the cases that match a pattern, or without patterns a few, perhaps `only_wrong`.

    What has been drawn before is left out, and so are cases whose declaration is not in one of these `places`, or is no
    longer as it ran. To draw a case is to run code that the records name. A run may come from elsewhere, so that
    exporters and runtimes of other modules are only used with `any_subject`.
    """
    cases: defaultdict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for record in _relevant(run, patterns):
        if record.status is not Status.ABSENT and (patterns is None or _matches(record, patterns)):
            cases[_key(record)].append(record)
    chosen = list(cases.values())
    if patterns is None:
        # What ended its process might do so again, or never end: it is drawn if that is asked for.
        chosen = [case for case in chosen if _choose_cell(case).status is not Status.CRASHED]
        chosen = chosen if len(cases) <= FEW and not only_wrong else _one_of_each_cause(chosen)
    drawn: dict[tuple[str, ...], str] = {drawing.key: drawing.source for drawing in drawings_of(run)}
    found = []
    for case in chosen:
        record = _choose_cell(case)
        key = _key(record)
        is_ours = record.exporter in EXPORTER_NAMES and record.runtime in RUNTIME_NAMES
        if (is_ours or any_subject) and _is_as_it_ran(record, places) and drawn.get(key) != record.source:
            opsets = sorted({each.opset for each in case if _axes(each) == _axes(record)})
            name = blake2b("\0".join(key).encode("utf-8", "replace"), digest_size=8).hexdigest()
            others = [each for each in _of_others(record, case) if any_subject or each.exporter in EXPORTER_NAMES]
            found.append(Task(record, opsets, str(run / FOLDER / f"{name}.json"), others))
    return found


def _of_others(record: Record, case: Sequence[Record]) -> list[Record]:
    """One cell of every other exporter at the opset of `record`, whose export differs in the exporter alone."""
    point = (*_axes(record), record.opset)
    found = {
        each.exporter: each
        for each in case
        if each.exporter != record.exporter and (*_axes(each, record.exporter), each.opset) == point
    }
    # What ended its process might do so again.
    return [found[name] for name in sorted(found) if found[name].status is not Status.CRASHED]


def _relevant(run: Path, patterns: Sequence[str] | None) -> Iterable[Record]:
    """The records among which those to draw are. Of a large run, few are read."""
    columns = read_columns(run)
    if columns is None:
        return read_records(run)
    labels = columns.values("case").distinct
    if patterns is not None:
        names = columns.rows_with("name", lambda name: _is_named(name, patterns))
        return columns.records_at(sorted({*names, *columns.rows_with("case", lambda case: _is_named(case, patterns))}))
    if len(labels) <= FEW:
        return columns.records()
    wrong = columns.records_at(columns.rows_with("status", WRONG.__contains__)[:_MOST_WRONG])
    wanted = {cause.first.case for cause in causes_of(wrong)[:FEW]}
    return columns.records_at(columns.rows_with("case", wanted.__contains__))


def _matches(record: Record, patterns: Sequence[str]) -> bool:
    return any(_is_named(text, patterns) for text in (record.case, record.name))


def _is_named(text: str | None, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns is this text, which may have brackets, or matches it."""
    return text is not None and any(text == pattern or fnmatchcase(text, pattern) for pattern in patterns)


def _one_of_each_cause(cases: Sequence[list[Record]]) -> list[list[Record]]:
    causes = causes_of(record for case in cases for record in case if record.status in WRONG)
    first = {_key(cause.first) for cause in causes[:FEW]}
    return [case for case in cases if _key(case[0]) in first]


def _key(record: Record) -> tuple[str, str, str, str]:
    return record.kind, record.family, record.name, record.case


def _choose_cell(case: Sequence[Record]) -> Record:
    """The cell that is drawn: one that is wrong, else one of the axes with most cells, at the newest opset."""
    numbers = Counter(map(_axes, case))
    return min(
        case,
        key=lambda record: (
            record.status not in WRONG,
            record.status is not Status.PASSED,
            -numbers[_axes(record)],
            -record.opset,
        ),
    )


def _axes(record: Record, exporter: str = "") -> tuple[str, ...]:
    """What of a record the exported graph depends on, beside the opset, or the same with another exporter."""
    return record.dtype, record.device, record.shapes, record.capture, exporter or record.exporter


def _is_as_it_ran(record: Record, places: Sequence[Path]) -> bool:
    file = Path(record.file)
    try:
        if not any(file.resolve().is_relative_to(place.resolve()) for place in places):
            return False
        return bool(record.source) and hash_declaration(file, record.name) == record.source
    except (OSError, SyntaxError, ValueError):
        return False


def draw_all(
    wanted: Sequence[Task], info: RunInfo, places: Sequence[Path], tell: Callable[[str], object] = str
) -> None:
    """Draw these cases in another process, and in the next one if a case ends it."""
    left = list(wanted)
    while left:
        tell(f"drawing {len(left)} case{'' if len(left) == 1 else 's'}")
        before = len(left)
        how = _draw_first_ones(left, info, places)
        # A process that ended by itself with its first case could not begin, and another one could not either.
        gone = left if len(left) == before and how.startswith("exited") else left[:1]
        for task in gone:
            keep_drawing(Path(task.file), blank_drawing(task.record, f"the process that drew it {how}"))
        left = left[len(gone) :]


def _draw_first_ones(left: list[Task], info: RunInfo, places: Sequence[Path]) -> str:
    """Draw these cases in a process, and take away those that are drawn. Return how it ended, if it did before."""
    process = WorkerProcess("onnx_parity.harness.drawing.worker", (str(info.seed), *map(str, places)))
    try:
        while left:
            process.send(msgspec.json.encode(left[0]))
            process.answer(_SECONDS_OF_A_CASE)
            del left[0]
    except ProcessEndedError as ending:
        return str(ending)
    finally:
        process.kill()
    return ""
