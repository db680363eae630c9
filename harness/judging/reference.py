"""Torch's results for every input set of a case, in the cell's dtype and in float64, which the oracle judges by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from onnx_parity.exporter.arrays import Array, Fed, to_array, to_fed
from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.exporter.verification.reference import MOVES, Measurement, Twin
from onnx_parity.harness.axes import Device
from onnx_parity.harness.cases.program import InputSet, Program
from onnx_parity.harness.cases.public_calls import PublicCalls, modules_of
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.record import Kind


@dataclass(frozen=True)
class Trial:
    """One input set: the inputs, and the outputs that are expected for them."""

    which: InputSet
    inputs: tuple[Given, ...]
    feeds: Mapping[str, Fed]
    #: The expected outputs, with tolerances that need few runs of the program, and then with larger ones, which need
    #: more. What is right by one of them is right by the last, and most outputs are right by the first.
    steps: Iterable[Sequence[Expected]]

    @cached_property
    def values(self) -> Sequence[Array]:
        """What torch returns."""
        return [each.value for each in next(iter(self.steps))]

    @cached_property
    def expected(self) -> Sequence[Expected]:
        """The expected outputs with the largest tolerances."""
        *_, last = self.steps
        return last


class _Steps(Iterable[Sequence[Expected]]):
    """The steps of a measurement, each of which is taken when it is needed, and once."""

    def __init__(self, measured: Measurement[tuple[Given, ...]]) -> None:
        self._measured = measured
        self._taken: list[Sequence[Expected]] = []

    def __iter__(self) -> Iterator[Sequence[Expected]]:
        yield from self._taken
        for step in islice(self._measured.steps(), len(self._taken), None):
            self._taken.append(step)
            yield step


def copy_feeds(feeds: Mapping[str, Fed]) -> dict[str, list[Array]]:
    """The arrays of every input, copied."""
    return {name: [array.copy() for array in _arrays(fed)] for name, fed in feeds.items()}


def restore_feeds(feeds: Mapping[str, Fed], copies: Mapping[str, list[Array]]) -> list[str]:
    """The names of the inputs whose bits differ from their copies. They are given their old values again."""
    changed = []
    for name, fed in feeds.items():
        for array, copy in zip(_arrays(fed), copies[name], strict=True):
            if array.tobytes() != copy.tobytes():
                array[...] = copy
                changed.append(name)
    return changed


def overwrite_feeds(feeds: Mapping[str, Fed], others: Mapping[str, Fed]) -> None:
    """Give the inputs the values of others, which a runtime in another process may have changed."""
    restore_feeds(feeds, {name: _arrays(fed) for name, fed in others.items()})


def _arrays(fed: Fed) -> list[Array]:
    return fed if isinstance(fed, list) else [] if fed is None else [fed]


@dataclass(frozen=True, slots=True)
class Reference:
    """The results of torch for a case at a dtype, shared by its cells at every opset."""

    example: Trial
    other_values: Trial | None
    #: Of an operator, its inputs with a NaN in the place of one number; None if it has no floats, or raises then.
    with_nan: Trial | None
    other_sizes: tuple[Trial, ...]
    #: The public functions of torch that the program calls, and the modules that it consists of.
    calls: tuple[str, ...]


class NondeterministicError(Exception):
    """The program gives other outputs each time, so that there is nothing to compare a runtime with."""


def consult(program: Program) -> Reference:
    """Run torch on every input set of a case."""
    judged = Judged(program)
    example = judged.trial(InputSet())
    calls = _refuse_nondeterministic(program, example)
    other = InputSet(draw=1)
    values_matter = not _same(example.inputs, program.inputs(other))
    return Reference(
        example=example,
        other_values=judged.trial(other) if values_matter else None,
        with_nan=_trial_with_nan(judged, program, example),
        other_sizes=tuple(judged.trial(sizes) for sizes in program.other_sizes()),
        calls=(*modules_of(program.module), *calls),
    )


def _trial_with_nan(judged: Judged, program: Program, example: Trial) -> Trial | None:
    declaration, which = program.declaration, InputSet(has_nan=True)
    if declaration.kind is not Kind.OPERATOR or declaration.without_nan:
        return None
    if _same(program.inputs(which), example.inputs):
        return None
    try:
        return judged.trial(which)
    except Exception:  # noqa: BLE001  The program is anybody's: whatever it raises, it takes no NaN.
        return None


def consult_on_empty_axes(program: Program) -> Iterator[Trial]:
    """Run torch on inputs in which one dynamic axis has no elements, for each axis of which the program takes it."""
    judged = Judged(program)
    for sizes in program.empty_sizes():
        try:
            yield judged.trial(sizes)
        except Exception:  # noqa: BLE001  The program is anybody's: whatever it raises, it takes no such axis.
            continue


def _same(one: tuple[Given, ...], other: tuple[Given, ...]) -> bool:
    leaves, others = tree_leaves(one), tree_leaves(other)
    return len(leaves) == len(others) and all(
        a is b if a is None or b is None else torch.equal(a, b) for a, b in zip(leaves, others, strict=True)
    )


class Judged:
    """A program with its twins in float64 and float32, from which errors are measured."""

    def __init__(self, program: Program) -> None:
        self._program = program
        #: A program on integers has none: outputs that are floats have the tolerance of their dtype.
        self._twin = Twin(program.module, torch.float64, program.call) if program.dtype.is_floating else None
        self._coarse = Twin(program.module, torch.float32, program.call) if program.dtype.is_floating else None

    def trial(self, which: InputSet) -> Trial:
        program = self._program
        declaration = program.declaration
        inputs = program.inputs(which)
        seeds = [stable_seed(program.seed, program.case.label, "moved", str(turn)) for turn in range(MOVES)]
        measured = Measurement(
            [to_array(output) for output in program.run(inputs)],
            inputs,
            self._twin,
            self._coarse,
            seeds=seeds if declaration.kind is Kind.OPERATOR else (),
            moved_by=torch.finfo(getattr(torch, program.dtype)).eps if program.dtype.is_floating else 0.0,
            again=lambda near: [to_array(output) for output in program.run(near)],
            declared=declaration.tolerance.get(program.dtype),
            signed_zeros=declaration.signed_zeros,
        )
        feeds = {name: to_fed(given) for name, given in zip(program.input_names, inputs, strict=True)}
        return Trial(which, inputs, feeds, _Steps(measured))


def _same_bits(trial: Trial, again: Sequence[np.ndarray]) -> bool:
    pairs = zip(trial.values, again, strict=True)
    return all((first.shape, first.tobytes()) == (second.shape, second.tobytes()) for first, second in pairs)


def _refuse_nondeterministic(program: Program, trial: Trial) -> tuple[str, ...]:
    """Run the program again on the same inputs. Every bit must be equal; on a GPU, whose kernels add in another order
    each time, the results must be within the tolerance of a runtime.

    Return the public functions of torch that it called.
    """
    called = PublicCalls()
    again = [to_array(output) for output in program.run(trial.inputs, called)]
    calls = tuple(called.names)
    if not _same_bits(trial, again):
        # torch does not use its fused attention while calls are noted: only a run without that can be compared.
        again = [to_array(output) for output in program.run(trial.inputs)]
    if program.device is not Device.CPU and judge(again, trial.expected).passed:
        return calls
    for number, (first, second) in enumerate(zip(trial.values, again, strict=True)):
        if (first.shape, first.tobytes()) != (second.shape, second.tobytes()):
            raise NondeterministicError(
                f"output {number} is another one when torch runs the program again on the same inputs. "
                "Seed what it draws, take it as an input, or return only what does not depend on it."
            )
    return calls
