"""The stages of a cell, and the work that the cells of a case share.

The cells of a case share the built program, its capture and the reference. A cell then lowers the capture to its opset,
checks, transforms, loads and runs the model, and compares the outputs. Cells that differ only in their runtime also
share the model, and those whose transformations begin alike share what comes of these. If a stage raises an error, only
that cell fails.
"""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from onnx_parity.exporter.errors import OnnxExporterWarning
from onnx_parity.exporter.files.external_data import EXTERNAL_FROM
from onnx_parity.exporter.registry.rules import note, noting
from onnx_parity.exporter.runtime.sessions import errors_of_empty_axes
from onnx_parity.harness.axes import MIDDLE_OPSET, ONNXRUNTIME, PARITY, Device, Shapes
from onnx_parity.harness.cases.draws import DrawnCase, search
from onnx_parity.harness.cases.program import CannotBuildError, Program, build
from onnx_parity.harness.judging.blame import History
from onnx_parity.harness.judging.lacking_kernel import lacking_kernel
from onnx_parity.harness.judging.outcome import MismatchError, Outcome, Prepared
from onnx_parity.harness.judging.reference import (
    Reference,
    Trial,
    consult,
    consult_on_empty_axes,
    copy_feeds,
    restore_feeds,
)
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.record import Stage
from onnx_parity.harness.reuse.reuse import Reuse
from onnx_parity.harness.subjects import cuda
from onnx_parity.harness.subjects.delivered import Delivered, check, shapes_of
from onnx_parity.harness.subjects.exporter_interface import Captured, Exporter, NoSuchFormError, Request
from onnx_parity.harness.subjects.exporters import EXPORTERS
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, NotUsableError, Runtime, Session
from onnx_parity.harness.subjects.runtimes import RUNTIMES, OnnxReference
from onnx_parity.harness.transformations.named import TRANSFORMATIONS
from onnx_parity.harness.transformations.transformation import (
    DeclinedError,
    Transformation,
    check_results,
    judge_outputs,
)

#: Weights of more bytes than this are written to a separate file, because protobuf would copy them at every stage.
EXTERNAL_WEIGHTS = 16 << 20
#: How torch says that an operator has other dtypes, where it does not raise NotImplementedError.
_OTHER_DTYPES = re.compile(
    r"dtypes not supported|other than float and double|of float, double|only supported for half|Half, Float or Double"
    r"|Unsupported dtype|doesn't support tensors of type"
    # The program itself has tensors of the declared dtype.
    r"|have the same dtype|dtypes must be the same|expected scalar type|mixed dtype|to have dtype|without overflow"
    r"|expect (A|input) to be|either float or double|integer tensors, but got"
)

#: What torch raises if the device itself fails: an assertion of a kernel, after which nothing runs there, or no memory.
_OF_THE_DEVICE = (torch.AcceleratorError, torch.OutOfMemoryError)


class Bench:
    """Runs cells. There is one for each process; the cells of a case should come one after the other."""

    def __init__(
        self,
        seed: int,
        *,
        exporters: Mapping[str, Exporter] = EXPORTERS,
        runtimes: Mapping[str, Runtime] = RUNTIMES,
        transformations: Mapping[str, Transformation] = TRANSFORMATIONS,
        entered: Callable[[Stage], None] = lambda stage: None,
        reuse: Reuse | None = None,
    ) -> None:
        self._seed = seed
        self._reuse = reuse
        self._exporters = exporters
        self._runtimes = runtimes
        self._transformations = transformations
        self._entered = entered
        # Only that of the last case is kept, since cells come case by case, and two VGG-16 need a gigabyte.
        self._prepared: Prepared | None = None
        # Each worker has one core, and with one thread sums are computed in the same order everywhere.
        torch.set_num_threads(1)

    def run(self, cell: Cell, ended: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
        """Run a cell. `ended` is called with the outcome while the files of its model still exist."""
        if isinstance(cell.case, DrawnCase):
            with noting() as asked:
                found = search(cell, self.run)
            found.asked = asked
            found.key = ""  # It has run many models.
            return found
        outcome = Outcome(cell, cell.runtime)
        exporter, runtime = self._exporters[cell.exporter], self._runtimes[cell.runtime]
        chain = tuple(self._transformations[name] for name in cell.transforms)
        outcome.chain = chain
        opset = next((each.opset for each in reversed(chain) if each.opset is not None), cell.opset)
        if unclaimed := _find_unclaimed(cell, opset, runtime):
            outcome.decline(unclaimed)
            return outcome
        if missing := _missing(cell, exporter, runtime, chain):
            outcome.absent(missing)
            return outcome
        with np.errstate(all="ignore"), ExitStack() as until_the_end:
            outcome.asked = until_the_end.enter_context(noting())
            if cell.device is Device.CUDA:
                until_the_end.enter_context(cuda.in_turn(lambda: self._entered(Stage.BUILD)))
            try:
                self._run_stages(cell, exporter, runtime, outcome)
            except MismatchError as error:
                outcome.mismatch(error)
            except NoKernelError as error:
                outcome.decline(f"{runtime.name} has no kernel: {error}")
            except DeclinedError as error:
                outcome.decline(str(error))
            except (NotUsableError, NoSuchFormError, CannotBuildError) as error:
                outcome.absent(str(error))
            except Exception as error:  # noqa: BLE001  Stages run other people's code: what it raises is the outcome.
                refusal = exporter.refusal(error) if outcome.stage is Stage.EXPORT else ""
                if _in_a_dtype_beyond(cell, outcome.stage, error):
                    outcome.absent(f"torch has no kernel: {one_line(str(error))}")
                elif _on_the_cpu_only(cell, outcome.stage, error):
                    outcome.absent(f"torch cannot run it on {cell.device}: {one_line(str(error))}")
                elif refusal:
                    outcome.refuse(refusal, error)
                else:
                    outcome.fail(error)
            ended(outcome)
        return outcome

    def capture(self, cell: Cell) -> tuple[Prepared, Captured]:
        """The program of a cell with its reference, and its capture, which can be delivered at any opset."""
        prepared = self._prepare(cell, Outcome(cell, cell.runtime))
        with prepared.program.at_home():
            return prepared, self._capture(cell, self._exporters[cell.exporter], prepared)

    def _run_stages(self, cell: Cell, exporter: Exporter, runtime: Runtime, outcome: Outcome) -> None:
        prepared = outcome.prepared = self._prepare(cell, outcome)
        reference = prepared.reference
        outcome.calls = reference.calls
        made = prepared.model(cell)
        with self._stage(Stage.EXPORT, outcome), prepared.program.at_home():
            captured = self._capture(cell, exporter, prepared)
            outcome.aten = captured.operators
            outcome.warned = prepared.warned[cell.exporter, cell.capture, cell.shapes]
            apart = _are_weights_apart(cell, prepared.program)
            if made.exported is None:
                with noting() as made.asked:
                    made.exported = Delivered(captured.deliver(cell.opset, made.new_folder() if apart else None))
            note(made.asked)
            delivered = outcome.delivered = made.exported
        warned = outcome.warned
        if self._reuse is not None and self._reuse.after_export(outcome, delivered, reference):
            # The exporter may warn of other things, and write the same model.
            outcome.warned = warned
            return
        with self._stage(Stage.CHECK, outcome):
            if not made.is_checked:
                # A declaration knows the fusions of this exporter; other exporters' models may be larger.
                most = cell.case.declaration.most_nodes(cell.opset, cell.dtype) if cell.exporter == PARITY else None
                check(
                    delivered,
                    cell.opset,
                    shapes_of(reference.example.feeds, prepared.program.declaration.asked(cell.shapes)),
                    len(reference.example.values),
                    most,
                )
                made.is_checked = True
            outcome.onnx = delivered.uses()
            outcome.nodes = len(delivered.nodes)
        if outcome.chain:
            with self._stage(Stage.TRANSFORM, outcome):
                trials = _trials(cell, reference)
                models = made.transformed(outcome.chain, [trial.feeds for trial in trials])
                _check_results(models, trials, outcome)

                def direct(opset: int) -> Delivered:
                    return Delivered(captured.deliver(opset, made.new_folder() if apart else None))

                delivered = outcome.delivered = models[-1]
                outcome.history = History(outcome.chain, models, runtime, direct)
                outcome.onnx = delivered.uses()
                outcome.nodes = len(delivered.nodes)
        with self._stage(Stage.LOAD, outcome):
            session = _load(delivered, cell, runtime, outcome)
        with self._stage(Stage.RUN, outcome):
            outputs = _run(session, reference.example, runtime)
        with self._stage(Stage.COMPARE, outcome):
            _compare(reference.example, outputs, outcome)
        if cell.shapes is Shapes.DYNAMIC:
            with self._stage(Stage.RERUN_SIZES, outcome):
                for trial in reference.other_sizes:
                    outcome.trial = trial
                    _compare(trial, _run(session, trial, runtime), outcome)
                # One opset is enough: what an empty axis changes are sizes, which all opsets compute alike.
                if cell.exporter == PARITY and cell.opset == MIDDLE_OPSET and not cell.transforms:
                    _compare_empty_axes(prepared.program, delivered, outcome)
        if others := _trials_of_values(cell, reference):
            with self._stage(Stage.RERUN_VALUES, outcome):
                for trial in others:
                    outcome.trial = trial
                    _compare(trial, _run(session, trial, runtime), outcome)
        # The time to end a session counts as the runtime's, too.
        start = time.perf_counter()
        del session
        outcome.seconds[Stage.RUN.value] += time.perf_counter() - start

    def _prepare(self, cell: Cell, outcome: Outcome) -> Prepared:
        if self._prepared is not None and self._prepared.serves(cell):
            return self._prepared
        self.close()
        with self._stage(Stage.BUILD, outcome):
            program = build(cell.case, cell.dtype, cell.device, self._seed)
        with self._stage(Stage.REFERENCE, outcome):
            self._prepared = Prepared(program, consult(program))
        return self._prepared

    def close(self) -> None:
        """Forget what cells share, with the files of their model."""
        if self._prepared is not None:
            self._prepared.close()
        self._prepared = None  # Its weights are freed before the next ones are created.

    def _capture(self, cell: Cell, exporter: Exporter, prepared: Prepared) -> Captured:
        key = (cell.exporter, cell.capture, cell.shapes)
        if key not in prepared.captured:
            program = prepared.program
            dynamic = program.declaration.asked(cell.shapes)
            inputs = prepared.reference.example.inputs
            request = Request(program.module, inputs, program.input_names, dynamic, cell.capture)
            with warnings.catch_warnings(record=True) as caught, noting() as prepared.asked[key]:
                warnings.simplefilter("always", OnnxExporterWarning)
                prepared.captured[key] = exporter.capture(request)
            ours = (each for each in caught if issubclass(each.category, OnnxExporterWarning))
            prepared.warned[key] = tuple(one_line(str(each.message)).replace(f"{Path.cwd()}/", "") for each in ours)
        note(prepared.asked[key])
        return prepared.captured[key]

    @contextmanager
    def _stage(self, stage: Stage, outcome: Outcome) -> Iterator[None]:
        outcome.stage = stage
        self._entered(stage)
        start = time.perf_counter()
        start_of_processor = time.process_time() if stage is Stage.EXPORT else 0.0
        try:
            yield
        finally:
            outcome.seconds[stage.value] = time.perf_counter() - start
            if stage is Stage.EXPORT:
                outcome.export_cpu = time.process_time() - start_of_processor


def _are_weights_apart(cell: Cell, program: Program) -> bool:
    """Whether weights are written into a file beside the model: large ones, and at one opset all that may be there, so
    that cells read them from there in every dtype."""
    return program.weight_bytes >= (EXTERNAL_FROM if cell.opset == MIDDLE_OPSET else EXTERNAL_WEIGHTS)


def _find_unclaimed(cell: Cell, opset: int, runtime: Runtime) -> str:
    """What the cell needs and the runtime does not claim to support; empty if it claims all of it."""
    if opset not in runtime.opsets:
        return f"{runtime.name} runs opsets {runtime.opsets[0]} to {runtime.opsets[-1]}"
    return "" if cell.dtype in runtime.dtypes else f"{runtime.name} does not claim to support {cell.dtype}"


def _missing(cell: Cell, exporter: Exporter, runtime: Runtime, chain: Sequence[Transformation]) -> str:
    """Why this cell cannot run here; empty if it can."""
    reasons = (runtime.missing(cell.device), exporter.missing(), *(each.missing() for each in chain))
    return next(filter(None, reasons), "")


def _in_a_dtype_beyond(cell: Cell, stage: Stage, error: Exception) -> bool:
    """Whether torch itself cannot run the case in a dtype that only the full tier adds to the declared ones."""
    if cell.dtype in cell.case.declaration.dtypes or stage is not Stage.REFERENCE:
        return False
    return isinstance(error, NotImplementedError) or bool(_OTHER_DTYPES.search(str(error)))


def _on_the_cpu_only(cell: Cell, stage: Stage, error: Exception) -> bool:
    """Whether torch does not run the program on the device: it has no kernel there, or the program makes tensors on the
    CPU. If it is wrong on the CPU too, the cell of the CPU fails."""
    if cell.device is Device.CPU or stage is not Stage.REFERENCE or isinstance(error, _OF_THE_DEVICE):
        return False
    within = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, (RuntimeError, TypeError)) and Program.run.__code__ in within


def _compare_empty_axes(program: Program, delivered: Delivered, outcome: Outcome) -> None:
    """Compare the model's results for axes without elements, as onnx.reference computes them. onnxruntime refuses there
    what the specification defines, and ends the process by some operators. What onnx.reference refuses itself is not
    compared."""
    evaluator, runtime = OnnxReference(), outcome.runtime
    session: Session | None = None
    for trial in consult_on_empty_axes(program):
        outcome.trial, outcome.runtime = trial, evaluator.name
        try:
            session = session or evaluator.load(delivered.model, program.device)
            outputs = _run(session, trial, evaluator)
        except errors_of_empty_axes():
            continue
        _compare(trial, outputs, outcome)
    outcome.runtime = runtime


def _trials(cell: Cell, reference: Reference) -> list[Trial]:
    """All inputs with which the cell's model will be run."""
    other_sizes = reference.other_sizes if cell.shapes is Shapes.DYNAMIC else ()
    return [reference.example, *_trials_of_values(cell, reference), *other_sizes]


def _trials_of_values(cell: Cell, reference: Reference) -> list[Trial]:
    """The inputs of the same sizes and other values. What becomes of NaN is compared for this exporter's own models:
    other runtimes and transformations differ there by kernel."""
    is_own = cell.exporter == PARITY and cell.runtime == ONNXRUNTIME and not cell.transforms
    with_nan = reference.with_nan if is_own and cell.device is Device.CPU else None
    return [trial for trial in (reference.other_values, with_nan) if trial is not None]


def _check_results(models: Sequence[Delivered], trials: Sequence[Trial], outcome: Outcome) -> None:
    """Check that no transformation declares another size of an output than one of the trials has."""
    for trial in trials:
        outcome.trial = trial
        shapes = [each.shape for each in trial.values]
        for transformation, (before, after) in zip(outcome.chain, pairwise(models), strict=True):
            check_results(transformation, before, after, shapes)
    outcome.trial = None


def _load(delivered: Delivered, cell: Cell, runtime: Runtime, outcome: Outcome) -> Session:
    try:
        return runtime.load(delivered.model, cell.device)
    except NoKernelError as error:
        # The graph is valid, but this runtime cannot run it, so the specification's evaluator does. For a runtime that
        # was requested explicitly the cell is absent instead, and so is one whose model was transformed for it.
        if cell.device is not Device.CPU or runtime.name != ONNXRUNTIME or cell.transforms:
            raise
        witness = OnnxReference()
        outcome.runtime = witness.name
        outcome.reason = f"run on {witness.name}: {runtime.name} has no kernel: {error}"
        outcome.lacks = lacking_kernel(str(error), delivered.proto)
        return witness.load(delivered.model, cell.device)


class ChangedInputError(Exception):
    """The runtime wrote into its inputs, which belong to its caller."""


def _run(session: Session, trial: Trial, runtime: Runtime) -> object:
    """The outputs for a trial's inputs, which the runtime must not change: other cells are run with them too."""
    before = copy_feeds(trial.feeds)
    try:
        outputs = session.run(trial.feeds)
    finally:
        changed = restore_feeds(trial.feeds, before)
    if changed:
        raise ChangedInputError(f"{runtime.name} wrote into its inputs: {', '.join(changed)}")
    return outputs


def _compare(trial: Trial, outputs: object, outcome: Outcome) -> None:
    given = tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,)
    for expected in trial.steps:
        verdict = judge_outputs(given, expected, outcome.chain)
        if verdict.passed:
            break
    else:
        raise MismatchError(trial, given, verdict)
    outcome.hold(verdict)
