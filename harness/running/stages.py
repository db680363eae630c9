"""The stages of a cell, and the work that the cells of a case share.

The cells of a case share the built program, its capture and the reference. A cell then lowers the capture to its opset,
checks, loads and runs the model, and compares the outputs. If a stage raises an error, only that cell fails.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import torch

from onnx_parity.exporter.arrays import in_pairs
from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.axes import ONNXRUNTIME, Device, Shapes
from onnx_parity.harness.case import named_axes
from onnx_parity.harness.cases.draws import DrawnCase, search
from onnx_parity.harness.cases.program import CannotBuildError, build
from onnx_parity.harness.judging.outcome import MismatchError, Outcome, Prepared
from onnx_parity.harness.judging.reference import Trial, consult
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.record import Stage
from onnx_parity.harness.subjects import cuda
from onnx_parity.harness.subjects.delivered import Delivered, check
from onnx_parity.harness.subjects.exporters import EXPORTERS, Captured, Exporter, NoSuchFormError, Request
from onnx_parity.harness.subjects.runtime_interface import NoDeviceError, NoKernelError, Runtime, Session
from onnx_parity.harness.subjects.runtimes import RUNTIMES, OnnxReference

#: Weights of more bytes than this are written to a separate file, because protobuf would copy them at every stage.
EXTERNAL_WEIGHTS = 16 << 20


class Bench:
    """Runs cells. There is one for each process; the cells of a case should come one after the other."""

    def __init__(
        self,
        seed: int,
        *,
        exporters: Mapping[str, Exporter] = EXPORTERS,
        runtimes: Mapping[str, Runtime] = RUNTIMES,
        entered: Callable[[Stage], None] = lambda stage: None,
    ) -> None:
        self._seed = seed
        self._exporters = exporters
        self._runtimes = runtimes
        self._entered = entered
        # Only that of the last case is kept, since cells come case by case, and two VGG-16 need a gigabyte.
        self._prepared: Prepared | None = None
        # Each worker has one core, and with one thread sums are computed in the same order everywhere.
        torch.set_num_threads(1)

    def run(self, cell: Cell, ended: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
        """Run a cell. `ended` is called with the outcome while the files of its model still exist."""
        if isinstance(cell.case, DrawnCase):
            return search(cell, self.run)
        outcome = Outcome(cell, cell.runtime)
        exporter, runtime = self._exporters[cell.exporter], self._runtimes[cell.runtime]
        if missing := _missing(cell, exporter, runtime):
            outcome.absent(missing)
            return outcome
        with np.errstate(all="ignore"), ExitStack() as until_the_end:
            if cell.device is Device.CUDA:
                until_the_end.enter_context(cuda.in_turn(lambda: self._entered(Stage.BUILD)))
            try:
                self._run_stages(cell, exporter, runtime, outcome, until_the_end)
            except MismatchError as error:
                outcome.mismatch(error)
            except NoKernelError as error:
                outcome.absent(f"{runtime.name} has no kernel: {error}")
            except (NoDeviceError, NoSuchFormError, CannotBuildError) as error:
                outcome.absent(str(error))
            except Exception as error:  # noqa: BLE001  Stages run other people's code: what it raises is the outcome.
                refusal = exporter.refusal(error) if outcome.stage is Stage.EXPORT else ""
                if _in_a_dtype_beyond(cell, outcome.stage, error):
                    outcome.absent(f"torch has no kernel: {one_line(str(error))}")
                elif refusal:
                    outcome.refuse(refusal, error)
                else:
                    outcome.fail(error)
            ended(outcome)
        return outcome

    def captured(self, cell: Cell) -> tuple[Prepared, Captured]:
        """The program of a cell with its reference, and its capture, which can be delivered at any opset."""
        prepared = self._prepare(cell, Outcome(cell, cell.runtime))
        with prepared.program.at_home():
            return prepared, self._capture(cell, self._exporters[cell.exporter], prepared)

    def _run_stages(
        self, cell: Cell, exporter: Exporter, runtime: Runtime, outcome: Outcome, until_the_end: ExitStack
    ) -> None:
        prepared = outcome.prepared = self._prepare(cell, outcome)
        reference = prepared.reference
        with self._stage(Stage.EXPORT, outcome), prepared.program.at_home():
            captured = self._capture(cell, exporter, prepared)
            outcome.aten = captured.operators
            folder = None
            if prepared.program.weight_bytes > EXTERNAL_WEIGHTS:
                folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
            delivered = outcome.delivered = Delivered(captured.deliver(cell.opset, folder))
        with self._stage(Stage.CHECK, outcome):
            check(delivered, cell.opset, _asked_shapes(cell, prepared), len(reference.example.expected))
            outcome.onnx = delivered.uses()
            outcome.nodes = len(delivered.nodes)
        with self._stage(Stage.LOAD, outcome):
            session = _load(delivered, cell, runtime, outcome)
        with self._stage(Stage.RUN, outcome):
            outputs = session.run(reference.example.feeds)
        with self._stage(Stage.COMPARE, outcome):
            _compare(reference.example, outputs, outcome)
        if cell.shapes is Shapes.DYNAMIC:
            with self._stage(Stage.RERUN_SIZES, outcome):
                for trial in reference.other_sizes:
                    outcome.trial = trial
                    _compare(trial, session.run(trial.feeds), outcome)
        if reference.other_values is not None:
            with self._stage(Stage.RERUN_VALUES, outcome):
                outcome.trial = reference.other_values
                _compare(reference.other_values, session.run(reference.other_values.feeds), outcome)
        # The time to end a session counts as the runtime's, too.
        start = time.perf_counter()
        del session
        outcome.seconds[Stage.RUN.value] += time.perf_counter() - start

    def _prepare(self, cell: Cell, outcome: Outcome) -> Prepared:
        if self._prepared is not None and self._prepared.serves(cell):
            return self._prepared
        self._prepared = None  # Its weights are freed before the next ones are created.
        with self._stage(Stage.BUILD, outcome):
            program = build(cell.case, cell.dtype, cell.device, self._seed)
        with self._stage(Stage.REFERENCE, outcome):
            self._prepared = Prepared(program, consult(program))
        return self._prepared

    def _capture(self, cell: Cell, exporter: Exporter, prepared: Prepared) -> Captured:
        key = (cell.exporter, cell.capture, cell.shapes)
        if key not in prepared.captured:
            program = prepared.program
            dynamic = program.declaration.asked(cell.shapes)
            inputs = prepared.reference.example.inputs
            request = Request(program.module, inputs, program.input_names, dynamic, cell.capture)
            prepared.captured[key] = exporter.capture(request)
        return prepared.captured[key]

    @contextmanager
    def _stage(self, stage: Stage, outcome: Outcome) -> Iterator[None]:
        outcome.stage = stage
        self._entered(stage)
        start, start_of_processor = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            outcome.seconds[stage.value] = time.perf_counter() - start
            if stage is Stage.EXPORT:
                outcome.export_cpu = time.process_time() - start_of_processor


def _missing(cell: Cell, exporter: Exporter, runtime: Runtime) -> str:
    """Why this cell cannot run here; empty if it can."""
    if cell.opset not in runtime.opsets:
        return f"{runtime.name} runs opsets {runtime.opsets[0]} to {runtime.opsets[-1]}"
    return runtime.missing(cell.device) or exporter.missing()


def _in_a_dtype_beyond(cell: Cell, stage: Stage, error: Exception) -> bool:
    """Whether torch itself cannot run the case in a dtype that only the full tier adds to the declared ones."""
    undeclared = cell.dtype not in cell.case.declaration.dtypes
    return undeclared and stage is Stage.REFERENCE and isinstance(error, NotImplementedError)


def _asked_shapes(cell: Cell, prepared: Prepared) -> dict[str, tuple[int | str, ...]]:
    """The expected shape of every input in the model, with a number or the name of a symbol for each axis."""
    dynamic = prepared.program.declaration.asked(cell.shapes)
    example = prepared.reference.example
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name, given in zip(example.feeds, example.inputs, strict=True):
        tensor = given[0] if isinstance(given, list) else given
        assert tensor is not None, "the example of an OrNone is a tensor"
        axes = named_axes(dynamic.get(name, {}))
        shapes[name] = tuple(axes.get(axis, size) for axis, size in enumerate(in_pairs(tensor).shape))
    return shapes


def _load(delivered: Delivered, cell: Cell, runtime: Runtime, outcome: Outcome) -> Session:
    try:
        return runtime.load(delivered.model, cell.device)
    except NoKernelError as error:
        # The graph is valid, but this runtime cannot run it, so the specification's evaluator does. For a runtime that
        # was requested explicitly the cell is absent instead.
        if cell.device is not Device.CPU or runtime.name != ONNXRUNTIME:
            raise
        witness = OnnxReference()
        outcome.runtime = witness.name
        outcome.reason = f"run on {witness.name}: {runtime.name} has no kernel: {error}"
        return witness.load(delivered.model, cell.device)


def _compare(trial: Trial, outputs: object, outcome: Outcome) -> None:
    given = tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,)
    verdict = judge(given, trial.expected)
    if not verdict.passed:
        raise MismatchError(trial, given, verdict)
    outcome.hold(verdict)
