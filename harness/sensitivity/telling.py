"""Which alterations of its operators a case tells: with which its results are no longer within the tolerance."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import torch

from onnx_parity.exporter.arrays import Array, to_array
from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.case import Case
from onnx_parity.harness.cases.program import CannotBuildError, InputSet, Program, build
from onnx_parity.harness.judging.reference import Judged
from onnx_parity.harness.sensitivity.alterations import (
    CASTS,
    DYNAMIC,
    Alteration,
    Kind,
    NotAlterableError,
    alterations_of,
    altered,
    axis_size,
    parameters_of,
    result_of_empty,
)
from onnx_parity.harness.sensitivity.calls import Call, Calls, is_tensor_in

__all__ = ["Looked", "NotLookedAtError", "look_at"]

#: What a program may raise if something is done wrong in it.
_RAISED = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, AttributeError, KeyError, ArithmeticError)
#: What depends on whether the size of the axis is known.
_ALONG_AXES = (Kind.TIES, Kind.EMPTY)


class NotLookedAtError(Exception):
    """A case that cannot be asked what it tells. The message says why."""


class Looked(msgspec.Struct, frozen=True, tag=True):
    """A case in a dtype: the alterations that its operators can have, and whether it tells each."""

    case: str
    dtype: str
    told: list[tuple[Alteration, bool]]
    #: Of each operator, the parameters that matter for its values.
    parameters: dict[str, set[str]]
    #: The operators that reduce an axis, and have values for one that is empty.
    reducing: set[str]


def look_at(case: Case, dtype: Dtype, run_seed: int, *, dynamic: bool) -> Looked:
    """Run the program of a case eagerly with each alteration, on the inputs that its cells have."""
    try:
        program = build(case, dtype, Device.CPU, run_seed)
    except CannotBuildError as error:
        raise NotLookedAtError(str(error)) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Looking(program, dynamic=dynamic).looked()


class _Looking:
    def __init__(self, program: Program, *, dynamic: bool) -> None:
        self._program = program
        self._parameters: defaultdict[str, set[str]] = defaultdict(set)
        self._reducing: set[str] = set()
        sizes = program.other_sizes() if dynamic else ()
        self._inputs = [InputSet(), *sizes, InputSet(draw=1)]
        self._outputs: dict[InputSet, list[Array]] = {}
        self._judged = Judged(program)
        self._expected: dict[InputSet, Sequence[Expected]] = {}
        #: The sizes of the axes that the calls of a run work along.
        self._axes: dict[InputSet, list[tuple[str, int | None]]] = {}

    def looked(self) -> Looked:
        which: defaultdict[Alteration, list[InputSet]] = defaultdict(list)
        for inputs in self._inputs:
            for alteration in self._note(inputs):
                which[alteration].append(inputs)
        told = []
        for alteration, those in which.items():
            tells = [tells for inputs in those if (tells := self._tells(alteration, inputs)) is not None]
            if tells:
                told.append((alteration, any(tells)))
        return Looked(self._program.case.label, self._program.dtype, told, self._parameters, self._reducing)

    def _note(self, inputs: InputSet) -> list[Alteration]:
        """The alterations that can be made with these inputs, of which the results without any are kept."""
        found: dict[Alteration, None] = {}
        self._axes[inputs] = axes = []
        dtype = getattr(torch, self._program.dtype)
        #: The results of casts, with the operators.
        cast: list[tuple[torch.Tensor, str]] = []

        def noting(number: int, call: Call) -> Any:
            result = call.run()
            if is_tensor_in(result) and is_tensor_in((call.arguments, *call.keywords.values())):
                name, size = call.operator, axis_size(call)
                axes.append((name, size))
                self._parameters[name].update(parameters_of(call))
                if name not in self._reducing and result_of_empty(call):
                    self._reducing.add(name)
                if name in CASTS:
                    # What one cast rounds, another one brings back to the dtype that it had.
                    before = (by for each, by in cast if each is call.arguments[0])
                    found.update((Alteration(by, Kind.UNROUNDED), None) for by in before)
                    cast.append((result, name))
                for alteration in alterations_of(call, result, dtype):
                    found[alteration] = None
                    if alteration.kind in _ALONG_AXES and self._is_dynamic(inputs, len(axes) - 1):
                        found[alteration._replace(where=DYNAMIC)] = None
            return result

        try:
            plain, again = _arrays(self._program, inputs), _arrays(self._program, inputs)
            self._outputs[inputs] = _arrays(self._program, inputs, noting)
        except _RAISED as error:
            raise NotLookedAtError(f"it cannot be run: {error}") from error
        # torch does not use its fused attention while calls are seen.
        seen = self._outputs[inputs]
        if not _alike(plain, again) or not (_alike(plain, seen) or self._is_within(seen, inputs)):
            raise NotLookedAtError("its results are other ones each time")
        return [*found]

    def _is_dynamic(self, inputs: InputSet, place: int) -> bool:
        """Whether the axis that a call works along has another size than in the example."""
        example, here = self._axes[self._inputs[0]], self._axes[inputs]
        return inputs.sizes != () and place < len(example) and example[place] != here[place]

    def _tells(self, alteration: Alteration, inputs: InputSet) -> bool | None:
        """Whether the case tells it with these inputs; None if no call can have it."""
        calls = []

        def altering(number: int, call: Call) -> Any:
            if call.operator != alteration.operator:
                return call.run()
            try:
                result = altered(call, alteration)
            except NotAlterableError:
                return call.run()
            calls.append(number)
            return result

        try:
            got = _arrays(self._program, inputs, altering)
        except _RAISED:
            return True
        if not calls:
            return None
        sound = self._outputs[inputs]
        if alteration.kind is Kind.UNROUNDED and len(got) == len(sound):
            # A model's outputs have the dtypes that they are declared with.
            with np.errstate(all="ignore"):
                got = [each.astype(value.dtype) for each, value in zip(got, sound, strict=True)]
        if _alike(got, sound):
            return False
        return not self._is_within(got, inputs)

    def _is_within(self, got: Sequence[Array], inputs: InputSet) -> bool:
        if inputs not in self._expected:
            self._expected[inputs] = self._judged.trial(inputs).expected
        return judge(got, self._expected[inputs]).passed


def _arrays(program: Program, inputs: InputSet, changed: Callable[[int, Call], Any] | None = None) -> list[Array]:
    watched = None if changed is None else Calls(changed)
    return [to_array(output) for output in program.run(program.inputs(inputs), watched)]


def _alike(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return len(one) == len(other) and all(
        (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True)
    )
