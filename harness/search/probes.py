"""What a program is put to: each probe looks for one kind of fault, and says whose it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import numpy as np
import onnx
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from onnx_parity.exporter.arrays import Array, to_array
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.verification.oracle import Verdict, judge
from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME, PARITY, Capture, Device
from onnx_parity.harness.judging.blame import Evidence, rule, rule_on_failure
from onnx_parity.harness.judging.reference import Trial
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.record import Blame
from onnx_parity.harness.search.generated import GeneratedProgram
from onnx_parity.harness.search.parts import ListOfAnyLengthError
from onnx_parity.harness.search.probed_program import ModelKey, ProbedProgram
from onnx_parity.harness.search.roundings import may_be_rounding
from onnx_parity.harness.subjects.delivered import Delivered, check, shapes_of
from onnx_parity.harness.subjects.exporter_interface import NoSuchFormError
from onnx_parity.harness.subjects.exporters import EXPORTERS
from onnx_parity.harness.subjects.runtime_interface import NoKernelError
from onnx_parity.harness.subjects.runtimes import RUNTIMES

#: Probes that give the exporter another form of the program, and whose form that is.
FORMS = {Capture.SCRIPT: "torch.jit.script", Capture.EXPORTED_PROGRAM: "torch.export"}


class Fault(StrEnum):
    """What is wrong."""

    WRONG = "wrong result"
    ERROR = "error"
    INVALID = "invalid model"
    CRASH = "crash"
    REFUSED = "refusal"


@dataclass(frozen=True, slots=True)
class Failure:
    """A fault that a probe has found."""

    culprit: str
    fault: Fault
    #: One line: the error, or the first element that differs.
    detail: str
    #: The inputs for which it was found.
    trial: Trial | None = field(default=None, compare=False)


class RefusedHere(Exception):
    """An exporter, a runtime or a transformation says that it does not do this. It is no fault."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a program is looked at: the probe's name, an exporter, an opset."""

    probe: str
    exporter: str = PARITY
    opset: int = 18

    @property
    def culprit(self) -> str:
        """Whose code runs at this point: the exporter's, or that of what is done with this exporter's model."""
        if self.exporter != PARITY or self.probe == ONNXRUNTIME or self.probe in FORMS:
            return self.exporter
        return self.probe

    @property
    def way_in(self) -> Capture:
        """The form in which the exporter is given the program."""
        return Capture(self.probe) if self.probe in FORMS else Capture.TRACE

    @property
    def model(self) -> ModelKey:
        return self.exporter, self.way_in, self.opset

    def __str__(self) -> str:
        return f"{self.exporter} at opset {self.opset}, {self.probe}"


#: A difference of floats is small up to this share of the largest element, by the bytes of the dtype.
SMALL = {2: 5e-2, 4: 2e-3, 8: 1e-5}

#: An error of a declared case that is larger than its tolerance by no more than this factor is none. The tolerances of
#: cases hold for the inputs that a run draws: in a search of 8,000 programs one case had 1.06 times its own.
_HARDLY = 2.0

Probe = Callable[[ProbedProgram, Point], Failure | None]


def deliver(subject: ProbedProgram, point: Point) -> Delivered | Failure:
    """The model of a program, or the fault of the exporter."""
    if point.model in subject.models:
        return subject.models[point.model]
    exporter = EXPORTERS[point.exporter]
    example = subject.example
    assert example is not None
    form = point.exporter, point.way_in
    try:
        if form not in subject.captures:
            subject.captures[form] = exporter.capture(subject.request(point.way_in))
        delivered = Delivered(subject.captures[form].deliver(point.opset, None))
    except Exception as error:
        refusal = exporter.refusal(error) or (str(error) if isinstance(error, NoSuchFormError) else "")
        if refusal or isinstance(error, CaptureError):
            is_of_search = isinstance(error.__cause__, ListOfAnyLengthError)
            if not is_of_search and _is_exported_in_parts(subject.program, point):
                words = f"refuses what the cells of these cases say that it exports: {refusal or error}"
                return Failure(PARITY, Fault.REFUSED, one_line(words))
            raise RefusedHere(refusal or one_line(str(error))) from error
        return Failure(point.exporter, Fault.ERROR, error_line(error))
    try:
        if point.exporter == PARITY:
            check(delivered, point.opset, shapes_of(example.feeds, subject.program.dynamic_axes), len(example.values))
        else:
            onnx.checker.check_model(delivered.proto, full_check=True)
    except Exception as error:  # noqa: BLE001  The checker raises errors without a common base class.
        return Failure(point.exporter, Fault.INVALID, error_line(error))
    subject.models[point.model] = delivered
    return delivered


def _is_exported_in_parts(program: GeneratedProgram, point: Point) -> bool:
    """Whether a program is nothing but declared cases, each of which this exporter exports."""
    if not program.side_by_side or (point.exporter, point.way_in) != (PARITY, Capture.TRACE):
        return False
    return all(each.is_exported(point.opset, dynamic=bool(program.dynamic_axes)) for each in program.parts.values())


def runtime(subject: ProbedProgram, point: Point) -> Failure | None:
    """Run the model in a runtime, on the example, on other values and on other sizes."""
    delivered = deliver(subject, point)
    if isinstance(delivered, Failure):
        return delivered
    assert subject.example is not None
    name = ONNXRUNTIME if point.probe in FORMS else point.probe
    if point.opset not in RUNTIMES[name].opsets:
        raise RefusedHere(f"{name} does not support opset {point.opset}")
    trial = subject.example
    taken = {value.name for value in delivered.proto.graph.input}
    try:
        session = RUNTIMES[name].load(delivered.model, Device.CPU)
        for trial in (subject.example, *subject.others):
            trial = _take_inputs(trial, taken)
            outputs = tuple(session.run(trial.feeds))
            verdict = judge(outputs, trial.expected)
            is_near = is_close(verdict) if subject.program.side_by_side else is_small(verdict, trial)
            if not (verdict.passed or is_near or may_be_rounding(subject, trial, outputs, verdict)):
                if agrees_with_autograd(subject, trial, outputs):
                    continue
                ruling = rule(Evidence(trial, delivered, name), outputs, verdict)
                if ruling.blame is Blame.PRECISION:
                    continue
                if point.probe in FORMS and not judge(_outputs_of_form(subject, point, trial), trial.expected).passed:
                    return Failure(FORMS[point.way_in], Fault.WRONG, verdict.detail, trial)
                return Failure(_culprit(ruling.blame, point, name), Fault.WRONG, verdict.detail, trial)
    except RefusedHere:
        raise
    except NoKernelError as error:
        raise RefusedHere(f"{name} has no kernel: {one_line(str(error))}") from error
    except Exception as error:  # noqa: BLE001  A runtime may raise anything.
        blame = rule_on_failure(Evidence(trial, delivered, name)).blame
        return Failure(_culprit(blame, point, name), Fault.ERROR, error_line(error), trial)
    if name == ONNXRUNTIME:
        subject.right.add(point.model)
    return None


def agrees_with_autograd(subject: ProbedProgram, trial: Trial, outputs: Sequence[object]) -> bool:
    """Whether a model gives what torch gives with autograd on.

    A program that asks for gradients is recorded with autograd on, but a search calls it with autograd off. torch's
    transformer encoders compute other rows for padding then.
    """
    with torch.enable_grad():
        expected = subject.expected(cast("tuple[torch.Tensor, ...]", trial.inputs))
    return expected is not None and judge(outputs, expected).passed


def _outputs_of_form(subject: ProbedProgram, point: Point, trial: Trial) -> list[Array]:
    """What torch's own form of a program gives for these inputs, which tells a fault of torch's from the exporter's."""
    form = subject.request(point.way_in).program()
    run = form.module() if isinstance(form, torch.export.ExportedProgram) else form
    try:
        outputs = run(*tree_map_only(torch.Tensor, torch.clone, trial.inputs))
    except Exception as error:
        # An exported program checks sizes, and a script values. Then there is no result that the model has to have.
        raise RefusedHere(
            f"what {FORMS[point.way_in]} makes of it takes no such inputs: {error_line(error)}"
        ) from error
    return [to_array(each) for each in tree_leaves(outputs)]


def is_small(verdict: Verdict, trial: Trial) -> bool:
    """Whether floats differ by less than rounding can make of them in a long program. A search looks for more."""
    if verdict.metrics is None or verdict.metrics.max_abs is None or not verdict.metrics.tolerance:
        return False
    value = trial.values[verdict.metrics.output]
    finite = np.abs(value[np.isfinite(value)].astype(np.float64))
    return verdict.metrics.max_abs <= SMALL[value.dtype.itemsize] * max(float(finite.max(initial=0.0)), 1.0)


def is_close(verdict: Verdict) -> bool:
    """Whether the error is hardly larger than the tolerance of a declared case, which was chosen by few draws."""
    return verdict.metrics is not None and verdict.metrics.headroom * _HARDLY >= 1.0


def _take_inputs(trial: Trial, names: set[str]) -> Trial:
    """The trial without inputs that the model does not have: torch's exporters leave out what is not used."""
    feeds = {name: array for name, array in trial.feeds.items() if name in names}
    return Trial(trial.which, trial.inputs, feeds, trial.steps)


def _culprit(blame: Blame, point: Point, name: str) -> str:
    if blame is Blame.RUNTIME:
        return ONNX_REFERENCE if name == ONNX_REFERENCE else ONNXRUNTIME
    return point.exporter if blame is Blame.EXPORTER else f"{point.exporter} or {name}"


def valid_model(subject: ProbedProgram, point: Point) -> Delivered:
    """The model of a program that onnxruntime runs rightly: what a transformation starts from."""
    plain = Point(ONNXRUNTIME, point.exporter, point.opset)
    if plain.model not in subject.right and runtime(subject, plain) is not None:
        raise RefusedHere("the model itself is not right, which is another probe's to say")
    return subject.models[plain.model]
