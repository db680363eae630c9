"""The outcome of a cell: filled in by the stages, explained for a reader, and stored in the cell's record."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from onnx_parity.exporter.registry.lowerings import is_lowered_by_user
from onnx_parity.exporter.registry.rules import Asked
from onnx_parity.exporter.verification.oracle import Distance, Verdict
from onnx_parity.harness.axes import PARITY, THEN, Capture, Shapes
from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.program import InputSet, Program
from onnx_parity.harness.judging.blame import Evidence, History, Ruling, rule, rule_on_failure
from onnx_parity.harness.judging.reference import Reference, Trial
from onnx_parity.harness.judging.shared_model import SharedModel
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.one_line import error_line, plain
from onnx_parity.harness.record import Blame, Metrics, OnnxUse, Record, Stage, Status
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.subjects.exporter_interface import Captured
from onnx_parity.harness.transformations.transformation import Transformation

#: The number of innermost frames of a traceback that are shown.
_FRAMES = 3
#: What the stages leave in the record of a cell, besides how long they took.
_LEFT = (
    "runtime", "stage", "status", "declined", "lacks", "reason", "blame", "metrics", "aten", "onnx", "nodes", "calls",
    "warned",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What the cells of a case at one dtype have in common."""

    program: Program
    reference: Reference
    captured: dict[tuple[str, Capture, Shapes], Captured] = field(default_factory=dict)
    #: What the exporter warned of in each of these captures.
    warned: dict[tuple[str, Capture, Shapes], tuple[str, ...]] = field(default_factory=dict)
    #: The rules of operators that were asked for in each of these captures.
    asked: dict[tuple[str, Capture, Shapes], set[Asked]] = field(default_factory=dict)
    #: The model that was exported last, with what distinguishes it. Only one is kept, since models may be large.
    _model: dict[tuple[str, Capture, Shapes, int], SharedModel] = field(default_factory=dict)

    def model(self, cell: Cell) -> SharedModel:
        """The model of a cell, which is that of the cell before if they differ only in what is done with it."""
        key = (cell.exporter, cell.capture, cell.shapes, cell.opset)
        if key not in self._model:
            self.close()
            self._model[key] = SharedModel()
        return self._model[key]

    def close(self) -> None:
        """Remove the files of the model."""
        while self._model:
            self._model.popitem()[1].close()

    def serves(self, cell: Cell) -> bool:
        program = self.program
        return (program.case, program.dtype, program.device) == (cell.case, cell.dtype, cell.device)


def blank_record(cell: Cell, file: str, nodeid: str, *, worker: str, options: tuple[str, ...] = ()) -> Record:
    """The record of a cell that has not run, with the status that it keeps if its process dies."""
    return Record(
        cell=cell.id,
        case=cell.case.label,
        name=cell.case.name,
        family=cell.case.family,
        kind=cell.case.declaration.kind,
        file=file,
        line=cell.case.declaration.line,
        nodeid=nodeid,
        opset=cell.opset,
        dtype=cell.dtype.value,
        device=cell.device.value,
        capture=cell.capture.value,
        exporter=cell.exporter,
        runtime=cell.runtime,
        shapes=cell.shapes.value,
        transforms=THEN.join(cell.transforms),
        status=Status.CRASHED,
        stage=Stage.BUILD,
        worker=worker,
        options=options,
    )


class MismatchError(Exception):
    """The runtime's outputs differ from torch's."""

    def __init__(self, trial: Trial, outputs: tuple[object, ...], verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.trial = trial
        self.outputs = outputs
        self.verdict = verdict


@dataclass(slots=True)
class Outcome:
    """The result of a cell, as far as it is known."""

    cell: Cell
    runtime: str
    stage: Stage = Stage.BUILD
    status: Status = Status.PASSED
    reason: str = ""
    #: The lines below the headline of a failure.
    details: list[str] = field(default_factory=list)
    #: The class of the error that ended it.
    raised: type[Exception] | None = None
    blame: Blame | None = None
    metrics: Metrics | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    export_cpu: float = 0.0
    aten: tuple[str, ...] = ()
    #: The rules of operators that the exporter was asked for, by this cell or for what it shares with others.
    asked: set[Asked] = field(default_factory=set)
    onnx: tuple[OnnxUse, ...] = ()
    nodes: int = 0
    calls: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    #: Used to explain a later failure.
    prepared: Prepared | None = None
    delivered: Delivered | None = None
    #: What is done to the model between export and run; and how it came about, once that has been done.
    chain: tuple[Transformation, ...] = ()
    history: History | None = None
    #: Whether the runtime or a transformation said that it does not support the model.
    declined: bool = False
    #: The kernel that onnxruntime lacks, if the model was run on onnx.reference for that.
    lacks: str = ""
    #: The input set that it was run on last, if that was not the example, and the outputs of the runtime.
    trial: Trial | None = None
    outputs: tuple[object, ...] = ()
    #: A hash of the model and of all else that the outcome depends on after the export; empty if it has none.
    key: str = ""
    #: The run of which the outcome is, and when the cell ran there, if it is known by its hash.
    reused: str = ""
    ran: float = 0.0

    def onto(self, record: Record) -> Record:
        """Complete the blank record of the cell."""
        left = {name: getattr(self, name) for name in _LEFT}
        if self.reused:
            left |= {"reused": self.reused, "ran": self.ran}
        return msgspec.structs.replace(record, **left, seconds=self.seconds, export_cpu=self.export_cpu)

    def take(self, record: Record, details: Sequence[str]) -> None:
        """Complete it with what the stages left in the record of an equal cell."""
        for name in _LEFT:
            setattr(self, name, getattr(record, name))
        self.details = [*details]

    def hold(self, verdict: Verdict) -> None:
        """Keep the metrics of the verdict with the least headroom."""
        if verdict.metrics and (self.metrics is None or verdict.metrics.headroom < self.metrics.headroom):
            self.metrics = _to_metrics(verdict.metrics)

    def absent(self, reason: str) -> None:
        """Mark the cell as one that cannot run on this machine, which is no result of the exporter."""
        self.status = Status.ABSENT
        self.reason = reason

    def decline(self, reason: str) -> None:
        """Mark the cell as one that the runtime, or a transformation, says that it does not support."""
        self.absent(reason)
        self.declined = True

    def refuse(self, reason: str, error: Exception) -> None:
        """Mark the cell as refused by the exporter."""
        self.status = Status.UNSUPPORTED
        self.reason = reason
        self.details = plain(str(error)).splitlines()

    def fail(self, error: Exception) -> None:
        """Mark the cell as failed by an error."""
        self.status = Status.FAILED
        self.raised = type(error)
        self.reason = f"{error_line(error)}{self._at()}"
        ruling = self._ruling_on_error(error)
        self.blame = ruling.blame
        self.details = [f"{type(error).__name__}{self._at()}: {plain(str(error))}", *_innermost(error), ruling.because]

    def mismatch(self, error: MismatchError) -> None:
        """Mark the cell as failed by wrong outputs, and decide who is to blame."""
        ruling = rule(self._evidence(error.trial), error.outputs, error.verdict)
        self.trial, self.outputs = error.trial, error.outputs
        self.status = Status.FAILED
        self.reason = error.verdict.detail + self._at()
        self.blame = ruling.blame
        self.metrics = _to_metrics(error.verdict.metrics)
        self.details = [self.reason, f"{self._operators()}; {ruling.because}"]

    def _at(self) -> str:
        """The input set in brackets; empty for the example."""
        return "" if self.trial is None or self.trial.which == InputSet() else f" ({self.trial.which})"

    def _operators(self) -> str:
        place = _place(self.cell.case.declaration)
        own = [name for name in self.aten if self.cell.exporter == PARITY and is_lowered_by_user(name)]
        match len(self.aten):
            case 0:
                return place
            case 1:
                return f"operator: {self.aten[0]}{', whose lowering is your own' if own else ''}, {place}"
            case number:
                lowered = f", of which {', '.join(own)} {'has' if len(own) == 1 else 'have'} your own lowering"
                return f"{number} operators{lowered if own else ''}, {place}"

    def _ruling_on_error(self, error: Exception) -> Ruling:
        if self.stage in (Stage.BUILD, Stage.REFERENCE):
            if module := _unimportable(error):
                return Ruling(Blame.CASE, f"{module} cannot be imported here, so the case cannot be built")
            return Ruling(Blame.CASE, "torch itself did not get through it, so the case is wrong")
        if self.stage is Stage.EXPORT:
            return Ruling(Blame.EXPORTER, "the exporter raised something other than a refusal")
        if self.stage is Stage.CHECK:
            return Ruling(Blame.EXPORTER, "the model is not what was asked for")
        if self.stage is Stage.TRANSFORM:
            return Ruling(Blame.TRANSFORMATION, "onnx's checker accepts the exported model")
        trial = self.trial if self.prepared is None else self.trial or self.prepared.reference.example
        assert trial is not None
        return rule_on_failure(self._evidence(trial))

    def _evidence(self, trial: Trial) -> Evidence:
        assert self.delivered is not None
        weight_bytes = 0 if self.prepared is None else self.prepared.program.weight_bytes
        return Evidence(trial, self.delivered, self.runtime, self.cell.device, weight_bytes, self.history)


def _place(declaration: Declaration) -> str:
    """Where a program is declared, in words that are the same on every machine."""
    file, here = declaration.file, Path.cwd()
    shown = file.relative_to(here) if file.is_relative_to(here) else Path(file.parent.name, file.name)
    return f"{shown}:{declaration.line}"


def _unimportable(error: Exception) -> str:
    """The module that raised an error while it was imported, or that there is not; empty if it is another error."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__"))
        # Python forgets a module whose import fails.
        if frame.f_code.co_name == "<module>" and name not in sys.modules:
            return name
    return (error.name or "") if isinstance(error, ModuleNotFoundError) else ""


def _innermost(error: Exception) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return [f"at {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames]


def _to_metrics(distance: Distance | None) -> Metrics | None:
    """The oracle's distance as a record keeps it."""
    if distance is None:
        return None
    # `dataclasses.asdict` copies each value first, which takes ten times as long.
    return Metrics(**{name: getattr(distance, name) for name in Metrics.__struct_fields__})
