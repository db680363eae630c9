"""Of a cell that fails: the first operator that diverges, whether it does so by itself, and how the error grew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

import exporter
from exporter.arrays import to_array
from exporter.capture.graph import Value
from exporter.verification.in_dtype import in_dtype
from exporter.verification.oracle import Expected, Verdict, judge
from harness.axes import Shapes
from harness.judging.outcome import Outcome
from harness.judging.reference import Trial
from harness.localisation.pieces import CannotCutError, Piece, Recording, follow
from harness.localisation.walk import WINDOW, Execute, Step, Walk, expected_of, widened
from harness.record import Stage, Status
from harness.running.stages import EXTERNAL_WEIGHTS, Bench
from harness.selecting.cells import Cell
from harness.subjects.exporters import EXPORTERS, Exporter, Request
from harness.subjects.runtimes import RUNTIMES, Runtime


class NothingToLocaliseError(Exception):
    """There is no divergence to look for. The message says why not."""


@dataclass(frozen=True, eq=False)
class Suspect:
    """A cell that fails, taken apart: its recording, the inputs that it fails on, and how its pieces are run."""

    cell: Cell
    outcome: Outcome
    recording: Recording
    trial: Trial
    execute: Execute

    @property
    def signed_zeros(self) -> bool:
        return self.cell.case.declaration.signed_zeros

    @classmethod
    def of(cls, cell: Cell, *, seed: int = 0) -> Suspect:
        """Run the cell; where it fails at or after export, take it apart."""
        outcome = Bench(seed).run(cell)
        if outcome.status is Status.PASSED:
            raise NothingToLocaliseError(f"{cell.id} passes: there is nothing to localise.")
        if outcome.status is not Status.FAILED or outcome.stage in (Stage.BUILD, Stage.REFERENCE):
            raise NothingToLocaliseError(f"{cell.id} is {outcome.status} at {outcome.stage}: {outcome.reason}")
        assert outcome.prepared is not None
        program, reference = outcome.prepared.program, outcome.prepared.reference
        execute = Execution(EXPORTERS[cell.exporter], RUNTIMES[cell.runtime], cell)
        try:
            captured = exporter.capture_program(
                program.module,
                reference.example.inputs,
                input_names=list(program.input_names),
                dynamic_axes=cell.case.declaration.dynamic if cell.shapes is Shapes.DYNAMIC else None,
                training=program.module.training,
            )
            recording = Recording.of(captured.graph)
        except (exporter.ExportError, CannotCutError) as error:
            raise NothingToLocaliseError(f"{cell.id} cannot be taken apart: {error}") from error
        return cls(cell, outcome, recording, outcome.trial or reference.example, execute)


@dataclass(frozen=True)
class Execution:
    """Pieces go the way of the cell: its exporter, its opset, its runtime."""

    exporter: Exporter
    runtime: Runtime
    cell: Cell

    def __call__(self, piece: Piece, inputs: Sequence[torch.Tensor]) -> Sequence[object]:
        with ExitStack() as until_the_end:
            folder = None
            if sum(buffer.nbytes for buffer in piece.buffers()) > EXTERNAL_WEIGHTS:
                folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
            captured = self.exporter.capture(Request(piece, tuple(inputs), piece.input_names, {}))
            session = self.runtime.load(captured.deliver(self.cell.opset, folder), self.cell.device)
            feeds = {name: to_array(tensor) for name, tensor in zip(piece.input_names, inputs, strict=True)}
            return session.run(feeds)


@dataclass(frozen=True, slots=True)
class Localisation:
    """What following a cell's program operator by operator has shown."""

    cell: str
    operators: int
    #: Where the error is larger than at any operator before, up to the first that diverges.
    growth: tuple[Step, ...]
    first: Step | None
    #: Of the first: what becomes of it when it is given torch's own values.
    alone: Verdict | None

    def lines(self) -> Iterator[str]:
        yield f"{self.cell}: {self.operators} operators"
        for step in self.growth:
            yield f"  {step.number:5}  {step.growth:9.3g} of its tolerance  {step}"
        if self.first is None:
            yield (
                "no operator diverges in pieces. What the whole has and its pieces have not is at fault: a pass that "
                "joins operators, the runtime's optimiser (try --runtimes onnxruntime:none), or symbolic sizes."
            )
            return
        yield f"first divergence: {self.first}"
        yield f"  {self.first.error or self.first.verdict.detail}"
        if self.alone is not None and not self.first.error:
            yield (
                "given torch's own values it holds: it magnifies what came before it"
                if self.alone.passed
                else "given torch's own values it is still wrong: its export, or the runtime's kernel for it, is"
            )


def localise(suspect: Suspect, *, window: int = WINDOW) -> Localisation:
    """Follow the program to the first operator that diverges."""
    growth: list[Step] = []
    first = None
    walk = Walk(suspect.recording, suspect.execute, window=window, signed_zeros=suspect.signed_zeros)
    for step in walk.steps(suspect.trial.inputs):
        if step.diverges or step.growth > max((each.growth for each in growth), default=0.0):
            growth.append(step)
        if step.diverges:
            first = step
            break
    alone = None
    if first is not None and not first.error:
        alone = judge_piece(suspect, (first.number,))
    return Localisation(suspect.cell.id, len(suspect.recording.nodes), tuple(growth), first, alone)


def judge_piece(suspect: Suspect, numbers: Sequence[int]) -> Verdict:
    """The last of these operators, exported with the others and given torch's own values for all else."""
    piece = piece_of(suspect.recording, numbers)
    inputs = torch_values(suspect, piece.taken)
    return judge(suspect.execute(piece, inputs), expected_outputs(piece, inputs, signed_zeros=suspect.signed_zeros))


def piece_of(recording: Recording, numbers: Sequence[int]) -> Piece:
    """These operators as a program that returns what the last of them makes."""
    nodes = [recording.nodes[number] for number in numbers]
    read = recording.read()
    return Piece(recording, nodes, [output for output in nodes[-1].outputs if output is not None and output in read])


def torch_values(suspect: Suspect, wanted: Sequence[Value]) -> list[torch.Tensor]:
    """torch's own values, from running the program up to the last of them."""
    graph, inputs = suspect.recording.graph, suspect.trial.inputs
    values = {item.value: tensor for item, tensor in zip(graph.inputs, inputs, strict=True)}
    found = {value: values[value] for value in wanted if value in values}
    for _, tensors in follow(suspect.recording, inputs):
        if len(found) == len(wanted):
            break
        found.update({value: tensors[value] for value in wanted if value in tensors})
    return [found[value] for value in wanted]


@torch.no_grad()
def expected_outputs(piece: Piece, inputs: Sequence[torch.Tensor], *, signed_zeros: bool) -> list[Expected]:
    """What torch makes of a piece, judged by its float64 twin where it has one."""
    values = piece(*inputs)
    try:
        with in_dtype(torch.float64):
            exact = piece(*map(widened, inputs))
    except (RuntimeError, TypeError, ValueError):
        exact = tuple(map(widened, values))
    return [expected_of(value, twin, signed_zeros=signed_zeros) for value, twin in zip(values, exact, strict=True)]
