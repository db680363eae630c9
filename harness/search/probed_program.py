"""torch's own results of a program for some inputs, and whether a difference from them would mean anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from onnx_parity.exporter.arrays import Array, Float64Array, epsilon, is_float, to_array
from onnx_parity.exporter.verification.oracle import Expected, expect
from onnx_parity.exporter.verification.reference import MOVES as MOVES_OF_CASES
from onnx_parity.exporter.verification.reference import Measurement, Twin, moved
from onnx_parity.harness.axes import Capture
from onnx_parity.harness.cases.program import InputSet
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.judging.reference import Trial
from onnx_parity.harness.record import Kind
from onnx_parity.harness.search.generated import GeneratedProgram, Line, release
from onnx_parity.harness.search.zeros import case_has_sign, have_sign
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.subjects.exporter_interface import Captured, Request

#: How often the inputs are moved by a unit in the last place, to see what that changes.
MOVES = 2
#: A change of a result by more than this, relative to it or to 1, is no rounding: the program magnifies it.
_MAGNIFIED = 1e-2
#: The tolerance of such a result in steps of the coarsest dtype.
COARSE = 128.0


#: An exporter, the form that it is given, and an opset.
ModelKey = tuple[str, Capture, int]


@dataclass(frozen=True, eq=False)
class ProbedProgram:
    """A program that is put to the probes: its module, and torch's results."""

    program: GeneratedProgram
    #: By exporter and the form that it is given, since one capture serves every opset.
    captures: dict[tuple[str, Capture], Captured] = field(default_factory=dict)
    #: The models that are valid, and those of them whose results in onnxruntime are right.
    models: dict[ModelKey, Delivered] = field(default_factory=dict)
    right: set[ModelKey] = field(default_factory=set)
    #: The parts in float64 and float32, where each is judged by itself.
    twins: dict[str, tuple[Twin[torch.nn.Module, Any] | None, ...]] = field(default_factory=dict)

    @cached_property
    def module(self) -> torch.nn.Module:
        return self.program.module()

    def request(self, way_in: Capture) -> Request:
        """What an exporter is asked for that is given the program in this form."""
        assert self.example is not None
        module = self.scriptable if way_in is Capture.SCRIPT else self.module
        # Declared cases are exported as their cells are, some with a warning.
        strict = not self.program.side_by_side
        return Request(module, self.example.inputs, self.names, self.program.dynamic_axes, way_in, strict=strict)

    @cached_property
    def scriptable(self) -> torch.nn.Module:
        return self.program.scriptable()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.program.arguments)

    @cached_property
    def example(self) -> Trial | None:
        return self._trial(resized=False, turn=0)

    @cached_property
    def others(self) -> tuple[Trial, ...]:
        """The inputs that the model is run with besides: of other sizes where some vary, and of other values."""
        varies = bool(self.program.dynamic_axes)
        trials = [self._trial(resized=resized, turn=1) for resized in ((True, False) if varies else (False,))]
        return tuple(trial for trial in trials if trial is not None)

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return _outputs(self.module, tuple(inputs))

    def release(self) -> None:
        for made in ("module", "scriptable"):
            if made in self.__dict__:
                release(getattr(self, made))

    @cached_property
    def coarsest(self) -> float:
        """The greatest epsilon of the floats of the program, its intermediate values among them."""
        inputs = [value.clone() for value in self.program.values()]
        found = {value.dtype for _, value in self.program.bound(inputs) if value.is_floating_point()}
        return max((torch.finfo(dtype).eps for dtype in found), default=torch.finfo(torch.float32).eps)

    @cached_property
    def twin(self) -> Twin[torch.nn.Module, Any]:
        """The program in float64."""
        return Twin(self.module, torch.float64, _outputs)

    def _trial(self, *, resized: bool, turn: int) -> Trial | None:
        """The results for these inputs; None if they mean nothing."""
        inputs = self.program.values(resized=resized, turn=turn)
        expected = self.expected(inputs)
        if expected is None:
            return None
        feeds = {name: to_array(tensor) for name, tensor in zip(self.names, inputs, strict=True)}
        return Trial(InputSet(draw=turn, sizes=(("other", 1),) if resized else ()), inputs, feeds, [expected])

    def expected(self, inputs: tuple[torch.Tensor, ...]) -> list[Expected] | None:
        """What is expected for these inputs; None if it means nothing: the results jump where the inputs move a little,
        or torch does not take these values."""
        try:
            values = self._values(inputs)
        except Exception:  # noqa: BLE001  Torch may refuse other values than those that the program was drawn with.
            return None
        return self._as_declared(values, inputs) if self.program.side_by_side else self._expected(values[0], inputs)

    def _values(self, inputs: tuple[torch.Tensor, ...]) -> list[list[Array]]:
        """torch's results of each declared case, or of the program as a whole."""
        if not self.program.side_by_side:
            return [[to_array(output) for output in self.run(inputs)]]
        return [
            [
                to_array(output)
                for output in _outputs(self.module.get_submodule(line.part), self._inputs_of(line, inputs))
            ]
            for line in self.program.lines
        ]

    def _inputs_of(self, line: Line, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        given = dict(zip(self.names, inputs, strict=True))
        return tuple(given[name] for name in line.reads)

    def _expected(self, values: Sequence[Array], inputs: tuple[torch.Tensor, ...]) -> list[Expected] | None:
        """What is expected where torch gives these values; None if they jump where the inputs move a little."""
        exact = self.twin.outputs(inputs)
        if exact is None or not _is_steady(values, exact):
            return None
        followed = []
        for number in range(MOVES):
            outputs = self.twin.outputs(moved(inputs, stable_seed(number, "moved")))
            if outputs is not None and not _is_steady(values, outputs):
                return None
            followed += [outputs] if outputs is not None else []
        step, signed = self.coarsest, have_sign(self.program)
        return [
            expect(
                value,
                exact[place],
                [outputs[place] for outputs in followed],
                moved_by=step,
                # What is computed from coarser values than its own dtype is as exact as those are.
                declared=COARSE * step if is_float(value.dtype) and epsilon(value.dtype) < step else None,
                signed_zeros=signed[place],
            )
            for place, value in enumerate(values)
        ]

    def _as_declared(self, values: Sequence[Sequence[Array]], inputs: tuple[torch.Tensor, ...]) -> list[Expected]:
        """What is expected of the results of declared cases, as their cells expect it. They may jump."""
        expected: dict[str, Expected] = {}
        for line, of_line in zip(self.program.lines, values, strict=True):
            part = self.program.parts[line.part]
            declaration = part.case.declaration
            seeds = [stable_seed(number, "moved") for number in range(MOVES_OF_CASES)]
            made = Measurement(
                of_line,
                self._inputs_of(line, inputs),
                *self._twins_of(line.part),
                seeds=seeds if declaration.kind is Kind.OPERATOR else (),
                moved_by=torch.finfo(getattr(torch, part.dtype)).eps if part.dtype.is_floating else 0.0,
                declared=declaration.tolerance.get(part.dtype),
                signed_zeros=declaration.signed_zeros and case_has_sign(part.case.label),
            ).expected()
            expected |= zip(line.makes, made, strict=True)
        return [expected[name] for name in self.program.outputs]

    def _twins_of(self, part: str) -> tuple[Twin[torch.nn.Module, Any] | None, ...]:
        """A part in float64 and in float32. A program on integers has none: floats among its results have the tolerance
        of their dtype."""
        if part not in self.twins:
            module, floats = self.module.get_submodule(part), self.program.parts[part].dtype.is_floating
            both = (Twin(module, dtype, _outputs) if floats else None for dtype in (torch.float64, torch.float32))
            self.twins[part] = next(both), next(both)
        return self.twins[part]


def _outputs(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """The outputs of a call with copies of the inputs."""
    return tree_leaves(module(*(tensor.clone() for tensor in inputs)))


def _is_steady(values: Sequence[Array], exact: Sequence[Float64Array]) -> bool:
    """Whether results in float64 are those in the program's dtypes but for rounding."""
    for value, other in zip(values, exact, strict=True):
        if value.shape != other.shape:
            return False
        wide = value.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (wide == other) | (np.isnan(wide) & np.isnan(other))
            rough = 8.0 if value.dtype.itemsize == 2 else 1.0
            near = np.abs(wide - other) <= rough * _MAGNIFIED * np.maximum(np.abs(other), 1.0)
        if not (same | (near & (value.dtype.kind not in "iub"))).all():
            return False
    return True
