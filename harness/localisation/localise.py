"""Finds the first operator that diverges in a failing cell, whether it also diverges alone, and the error before it."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

import onnx_parity
from onnx_parity.exporter.arrays import Array, to_array
from onnx_parity.exporter.graph.graph import Value
from onnx_parity.exporter.registry.lowerings import Lowering, find, is_from_user, is_lowered_by_user
from onnx_parity.exporter.verification.float64 import in_dtype
from onnx_parity.exporter.verification.oracle import Expected, Verdict, judge
from onnx_parity.harness.axes import ONNXRUNTIME, PARITY, Capture, Shapes
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.judging.reference import Reference, Trial
from onnx_parity.harness.localisation.pieces import CANNOT_RUN, Piece, Recording, follow
from onnx_parity.harness.localisation.unrolling import unroll
from onnx_parity.harness.localisation.walk import WINDOW, Step, Walk, expected_of, widen
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Blame, Stage, Status
from onnx_parity.harness.running.isolated_runtime import IsolatedRuntime
from onnx_parity.harness.running.stages import EXTERNAL_WEIGHTS, Bench
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.subjects.exporter_interface import Exporter, Request
from onnx_parity.harness.subjects.exporters import EXPORTERS
from onnx_parity.harness.subjects.runtime_interface import Runtime
from onnx_parity.harness.subjects.runtimes import RUNTIMES
from onnx_parity.harness.transformations.transformation import Transformation, applied, judge_outputs


class NothingToLocaliseError(Exception):
    """There is no divergence to look for. The message has the reason."""


@dataclass(frozen=True, eq=False)
class Suspect:
    """A failing cell: the recording of its program, the inputs for which it fails, and how its pieces are run."""

    cell: Cell
    outcome: Outcome
    recording: Recording
    trial: Trial
    #: The inputs with which pieces are exported.
    example: list[torch.Tensor]
    execute: Execution

    @property
    def signed_zeros(self) -> bool:
        return self.cell.case.declaration.signed_zeros

    @property
    def inputs(self) -> list[torch.Tensor]:
        return _tensors(self.trial)

    @classmethod
    def of(cls, cell: Cell, *, seed: int = 0) -> Suspect:
        """Run the cell. If it fails at export or later, record its program.

        Its runtime is run in another process, which ends in its place if it crashes.
        """
        runtime: Runtime = IsolatedRuntime(RUNTIMES[cell.runtime])
        outcome = Bench(seed, runtimes={cell.runtime: runtime}).run(cell)
        if outcome.status is Status.PASSED:
            raise NothingToLocaliseError(f"{cell.id} passes: there is nothing to localise or reduce.")
        if outcome.status is not Status.FAILED or outcome.stage in (Stage.BUILD, Stage.REFERENCE):
            raise NothingToLocaliseError(f"{cell.id} is {outcome.status} at {outcome.stage}: {outcome.reason}")
        assert outcome.prepared is not None
        program, reference = outcome.prepared.program, outcome.prepared.reference
        trial = outcome.trial or reference.example
        if not all(isinstance(given, torch.Tensor) for given in reference.example.inputs):
            raise NothingToLocaliseError(f"{cell.id} cannot be taken apart: not all of its inputs are tensors")
        dynamic = outcome.cell.case.declaration.asked(cell.shapes)
        request = Request(program.module, reference.example.inputs, program.input_names, dynamic, cell.capture)
        try:
            captured = onnx_parity.capture_program(
                request.program(),
                request.inputs,
                input_names=list(request.input_names),
                dynamic_axes=request.dynamic or None,
                training=program.module.training and cell.capture is not Capture.EXPORTED_PROGRAM,
            )
            recording = unroll(captured.graph, _tensors(trial))
        except onnx_parity.ExportError as error:
            raise NothingToLocaliseError(f"{cell.id} cannot be taken apart: {error}") from error
        example = _example(reference, trial, sizes_vary=cell.shapes is Shapes.DYNAMIC)
        if outcome.runtime != cell.runtime:
            # The runtime of the cell has no kernel for it, and another one ran it.
            runtime = RUNTIMES[outcome.runtime]
        execute = Execution(EXPORTERS[cell.exporter], runtime, cell, outcome.reason, outcome.chain)
        return cls(cell, outcome, recording, trial, _tensors(example), execute)


def _tensors(trial: Trial) -> list[torch.Tensor]:
    """The inputs of a trial, all of which must be tensors."""
    return [given for given in trial.inputs if isinstance(given, torch.Tensor)]


def _example(reference: Reference, trial: Trial, *, sizes_vary: bool) -> Trial:
    """The inputs with which pieces are exported: the cell's example or, if it fails for that, inputs of other sizes, so
    that these sizes stay dynamic."""
    if trial is not reference.example or not sizes_vary:
        return reference.example
    # Exporters assume that an axis of size 1 is broadcast.
    others = (other for other in reference.other_sizes if all(size > 1 for _, size in other.which.sizes))
    return next(others, reference.example)


@dataclass(frozen=True)
class Execution:
    """Runs pieces in the same way as the cell: with its exporter, its opset, its transformations and its runtime."""

    exporter: Exporter
    runtime: Runtime
    cell: Cell
    #: The outcome of the cell.
    reason: str
    chain: tuple[Transformation, ...] = ()

    def judge(self, outputs: Sequence[object], expected: Sequence[Expected]) -> Verdict:
        return judge_outputs(outputs, expected, self.chain)

    def __call__(
        self, piece: Piece, example: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Sequence[object]:
        """The runtime's outputs of a piece for these inputs. The piece is exported with the example."""
        with ExitStack() as until_the_end:
            folder = None
            if sum(buffer.nbytes for buffer in piece.buffers()) > EXTERNAL_WEIGHTS:
                folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
            session = self.runtime.load(self.model(piece, example, inputs, folder).model, self.cell.device)
            return session.run(_feeds(piece, inputs))

    def model(
        self, piece: Piece, example: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], folder: Path | None
    ) -> Delivered:
        """The piece as the model that the runtime is given: exported, and transformed as the cell's model is."""
        model = Delivered(self.export(piece, example, inputs, folder))
        for number, transformation in enumerate(self.chain):
            inner = folder / str(number) if folder is not None else None
            if inner is not None:
                inner.mkdir()
            model = applied(transformation, model, [_feeds(piece, inputs)], inner)
        return model

    def export(
        self, piece: Piece, example: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], folder: Path | None
    ) -> bytes | Path:
        """The piece as a model. Axes are dynamic if their sizes differ between the inputs and the example."""
        varying = dynamic_sizes(piece, example, inputs)
        try:
            return self._export(Request(piece, tuple(example), piece.input_names, varying), folder)
        except Exception as error:
            # A piece has less information about sizes than the whole program, so it may be refused. It is then exported
            # with the inputs themselves, unless the whole program fails with the same error.
            if not varying or self.reason.startswith(type(error).__name__):
                raise
            return self._export(Request(piece, tuple(inputs), piece.input_names, {}), folder)

    def _export(self, request: Request, folder: Path | None) -> bytes | Path:
        return self.exporter.capture(request).deliver(self.cell.opset, folder)


def _feeds(piece: Piece, inputs: Sequence[torch.Tensor]) -> dict[str, Array]:
    return {name: to_array(tensor) for name, tensor in zip(piece.input_names, inputs, strict=True)}


def dynamic_sizes(
    piece: Piece, example: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> dict[str, dict[int, str]]:
    """The axes of a piece's inputs whose sizes differ from the example's. Axes with equal sizes in both get the same
    name, as in the whole program."""
    varying: dict[str, dict[int, str]] = {}
    for name, one, other in zip(piece.input_names, example, inputs, strict=True):
        pairs = enumerate(zip(one.shape, other.shape, strict=True))
        if axes := {axis: f"size_{a}_{b}" for axis, (a, b) in pairs if a != b}:
            varying[name] = axes
    return varying


@dataclass(frozen=True, slots=True)
class Localisation:
    """The result of a search for the first operator that diverges."""

    cell: str
    operators: int
    #: The operators with a larger error than all before, up to the first that diverges.
    growth: tuple[Step, ...]
    first: Step | None
    #: The verdict on the first diverging operator when it is given torch's own values.
    alone: Verdict | None
    #: If none diverges: torch's verdict on the recording, compared with the program for these inputs.
    recording: Verdict | None
    #: The branches and loops that were run.
    blocks: tuple[str, ...]
    #: Where the case is declared, and the lowering of the first diverging operator: file, line and name.
    declared: str
    lowering: str
    #: What the cell's failure says of its cause: `exporter: onnx.reference agrees with onnxruntime, ...`, or
    #: `your own lowering: ...`.
    blame: str
    #: The runtime and the transformations of the cell.
    runtime: str
    chain: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        yield f"{self.cell}: {self.operators} operator{'s' * (self.operators != 1)}, declared at {self.declared}"
        for step in self.growth:
            yield f"  {step.number:5}  {step.growth:9.3g} of its tolerance  {step}"
        if self.first is None:
            yield self._why_none()
            return
        yield f"first divergence: {self.first}"
        yield f"  {self.first.error or self.first.verdict.detail}"
        if self.alone is not None and not self.first.error:
            yield (
                "given torch's own values it is correct: it magnifies an earlier error"
                if self.alone.passed
                else f"given torch's own values it is still wrong: {self._suspects()}, is"
            )
        if self.lowering:
            yield f"lowering: {self.lowering}"
        yield f"blame: {self.blame}"

    def _suspects(self) -> str:
        made = f"its export, {' or '.join(self.chain)}" if self.chain else "its export"
        return f"{made}, or the runtime's kernel for it"

    def _why_none(self) -> str:
        if self.recording is not None and not self.recording.passed:
            return (
                "no operator diverges, but the recording differs from the program: for these inputs torch also gives "
                f"another result if it runs the recording of the example: {self.recording.detail}. Values that the "
                "program read while it was recorded are constants of the recording."
            )
        lacking = [*(f"{each} itself" for each in self.blocks), "a pass that joins operators"]
        if self.chain:
            lacking.append(f"what {' or '.join(self.chain)} makes of several operators (try --transforms none)")
        ours = self.runtime.partition(":")[0] == ONNXRUNTIME
        return (
            "no operator diverges in a piece of the program. The error is in what the pieces lack: "
            f"{', '.join(lacking)}, or the runtime's optimiser "
            f"(try --runtimes {ONNXRUNTIME}{':none' if ours else ''})."
        )


def localise(suspect: Suspect, *, window: int = WINDOW) -> Localisation:
    """Run the program piece by piece, up to the first operator that diverges."""
    growth: list[Step] = []
    first = None
    recording = suspect.recording
    execute = suspect.execute
    walk = Walk(recording, execute, window=window, signed_zeros=suspect.signed_zeros, judge=execute.judge)
    for step in walk.steps(suspect.inputs, suspect.example):
        if step.diverges or step.growth > max((each.growth for each in growth), default=0.0):
            growth.append(step)
        if step.diverges:
            first = step
            break
    alone = followed = None
    if first is None:
        followed = judge([to_array(output) for output in walk.outputs], suspect.trial.expected)
    elif not first.error:
        alone = judge_piece(suspect, (first.number,))
    declaration = suspect.cell.case.declaration
    used = None if first is None else _lowering(suspect, first)
    is_own = used is not None and is_from_user(used) and (alone is None or not alone.passed)
    return Localisation(
        suspect.cell.id,
        len(recording.nodes),
        tuple(growth),
        first, alone, followed, recording.blocks,
        f"{declaration.file.parent.name}/{declaration.file.name}:{declaration.line}",
        "" if used is None else _place_of(used),
        _blame(suspect.outcome, is_own=is_own),
        suspect.outcome.runtime,
        suspect.cell.transforms,
    )  # fmt: skip


def own_lowering(cell: Cell, operators: Sequence[str], seed: int) -> str:
    """The place of a user's own lowering that is to blame for the failure of a cell, as `localise` finds it; empty if
    none is. `operators` are those of the program."""
    if cell.exporter != PARITY or not any(map(is_lowered_by_user, operators)):
        return ""
    try:
        found = localise(Suspect.of(cell, seed=seed))
    except NothingToLocaliseError:
        return ""
    return found.lowering if found.blame.startswith(_OWN) else ""


#: How the blame of a lowering begins that is not the exporter's.
_OWN = "your own lowering"


def _lowering(suspect: Suspect, step: Step) -> Lowering | None:
    """The lowering of an operator that this project's exporter exported; None if another one did."""
    is_ours = suspect.cell.exporter == PARITY
    return find(suspect.recording.nodes[step.number].op, suspect.cell.opset) if is_ours else None


def _place_of(lowering: Lowering) -> str:
    function = inspect.unwrap(lowering)
    file = Path(inspect.getfile(function))
    below = next((file.relative_to(each) for each in file.parents if (each / "exporter" / "lowering").is_dir()), file)
    return f"{below}:{inspect.getsourcelines(function)[1]} in {function.__name__}"


def _blame(outcome: Outcome, *, is_own: bool) -> str:
    """Who is to blame for the failure, and why, as the failure of the cell itself was explained."""
    because = outcome.details[-1].rpartition("; ")[2] if outcome.details else ""
    who = _OWN if is_own and outcome.blame is Blame.EXPORTER else str(outcome.blame)
    return f"{who}: {because}" if because else who


def judge_piece(suspect: Suspect, numbers: Sequence[int]) -> Verdict:
    """The verdict on the last of these operators, exported with the others and given torch's values as inputs."""
    piece = piece_of(suspect.recording, numbers)
    inputs, example = torch_values(suspect, piece.taken)
    given = suspect.execute(piece, example, inputs)
    return suspect.execute.judge(given, expected_outputs(piece, inputs, signed_zeros=suspect.signed_zeros))


def piece_of(recording: Recording, numbers: Sequence[int]) -> Piece:
    """These operators as a program that returns the results of the last one."""
    nodes = [recording.nodes[number] for number in numbers]
    read = recording.read()
    return Piece(recording, nodes, [output for output in nodes[-1].outputs if output is not None and output in read])


def torch_values(suspect: Suspect, wanted: Sequence[Value]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """torch's own values for the failing inputs and for the example, up to the last one that is wanted."""
    found: dict[Value, tuple[torch.Tensor, torch.Tensor]] = {}
    for tensors, examples in follow(suspect.recording, suspect.inputs, suspect.example):
        found.update({value: (tensors[value], examples[value]) for value in wanted if value in tensors})
        if len(found) == len(wanted):
            break
    return [found[value][0] for value in wanted], [found[value][1] for value in wanted]


@torch.no_grad()
def expected_outputs(piece: Piece, inputs: Sequence[torch.Tensor], *, signed_zeros: bool) -> list[Expected]:
    """The expected outputs of a piece, with tolerances from its float64 version if it has one."""
    values = piece(*inputs)
    try:
        with in_dtype(torch.float64):
            exact = piece(*map(widen, inputs))
    except CANNOT_RUN:
        exact = tuple(map(widen, values))
    return [expected_of(value, twin, signed_zeros=signed_zeros) for value, twin in zip(values, exact, strict=True)]
