"""What torch says: its own result in the cell's dtype, and the float64 results that the oracle judges by."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from onnx_parity.exporter.arrays import Fed, Float64Array, to_array, to_fed
from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.exporter.verification.float64 import in_dtype
from onnx_parity.exporter.verification.oracle import Expected, expect, judge
from onnx_parity.harness.axes import Device
from onnx_parity.harness.cases.program import InputSet, Program, build
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.record import Kind

#: How often the inputs are moved to see what the output makes of it. An element with cancellation looks ten times as
#: stable as it is in one draw of signs out of thirteen; in all of four, three times in a hundred thousand.
_MOVES = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """One input set: what goes in, what should come out."""

    which: InputSet
    inputs: tuple[Given, ...]
    feeds: Mapping[str, Fed]
    expected: tuple[Expected, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """All that torch is asked about a case at a dtype, shared by its cells at every opset."""

    example: Trial
    other_values: Trial | None
    other_sizes: tuple[Trial, ...]


class NondeterministicError(Exception):
    """The program gives something else each time: there is nothing to compare a runtime with."""


def consult(program: Program) -> Reference:
    """Run torch on every input set of a case."""
    twin = _Twin(program, torch.float64)
    example = _trial(program, twin, InputSet())
    _refuse_nondeterministic(program, example)
    other = InputSet(draw=1)
    values_matter = not _same(example.inputs, program.inputs(other))
    return Reference(
        example=example,
        other_values=_trial(program, twin, other) if values_matter else None,
        other_sizes=tuple(_trial(program, twin, sizes) for sizes in program.other_sizes()),
    )


def _same(one: tuple[Given, ...], other: tuple[Given, ...]) -> bool:
    leaves, others = tree_leaves(one), tree_leaves(other)
    return len(leaves) == len(others) and all(
        a is b if a is None or b is None else torch.equal(a, b) for a, b in zip(leaves, others, strict=True)
    )


def _trial(program: Program, twin: _Twin, which: InputSet) -> Trial:
    inputs = program.inputs(which)
    values = [to_array(output) for output in program.run(inputs)]
    operator = program.case.declaration.kind is Kind.OPERATOR
    exact = twin.run(inputs)
    moved = [twin.run(_moved(inputs, program, turn)) for turn in range(_MOVES)] if operator else []
    # torch's own error in float64 is not to be had from float64; float32's, scaled, stands for it.
    coarse = _Twin(program, torch.float32).run(inputs) if any(value.dtype == np.float64 for value in values) else None
    expected = tuple(
        expect(
            value,
            _output(exact, number),
            [other for outcome in moved if (other := _output(outcome, number)) is not None],
            moved_by=torch.finfo(getattr(torch, program.dtype)).eps if moved and program.dtype.is_floating else 0.0,
            coarse=_output(coarse, number),
            declared=program.case.declaration.tolerance.get(program.dtype),
            signed_zeros=program.case.declaration.signed_zeros,
        )
        for number, value in enumerate(values)
    )
    feeds = {name: to_fed(given) for name, given in zip(program.input_names, inputs, strict=True)}
    return Trial(which, inputs, feeds, expected)


def _refuse_nondeterministic(program: Program, trial: Trial) -> None:
    """Run it once more on the same inputs: every bit should be the same, or on a GPU, whose kernels add in another
    order each time, as much as a runtime is held to."""
    again = [to_array(output) for output in program.run(trial.inputs)]
    if program.device is not Device.CPU and judge(again, trial.expected).passed:
        return
    for number, (expected, second) in enumerate(zip(trial.expected, again, strict=True)):
        first = expected.value
        if (first.shape, first.tobytes()) != (second.shape, second.tobytes()):
            raise NondeterministicError(
                f"output {number} is another one when torch runs the program again on the same inputs. "
                "Seed what it draws, take it as an input, or return only what does not depend on it."
            )


def _output(outputs: Sequence[Float64Array] | None, number: int) -> Float64Array | None:
    return outputs[number] if outputs is not None and number < len(outputs) else None


class _Twin:
    """The same program with the same weights in another dtype, until it turns out that it has none."""

    def __init__(self, program: Program, dtype: torch.dtype) -> None:
        self._original = program
        self._dtype = dtype

    @functools.cached_property
    def _program(self) -> Program | None:
        program = self._original
        if not program.dtype.is_floating:
            return None
        if program.weight_bytes:
            # Built anew rather than converted and back: the exporter may hold the original's storage.
            program = build(program.case, program.dtype, program.device, program.seed)
            program.module.to(self._dtype)
        return program

    def run(self, inputs: tuple[Given, ...]) -> list[Float64Array] | None:
        if self._program is None:
            return None
        converted = tree_map_only(torch.Tensor, lambda t: t.to(self._dtype) if t.is_floating_point() else t, inputs)
        try:
            with in_dtype(self._dtype):
                outputs = self._program.run(converted)
        except (RuntimeError, TypeError, ValueError):
            # No kernel, or a program that insists on its dtype: the oracle then falls back to the dtype's tolerance.
            self._program = None
            return None
        return [to_array(output).astype(np.float64) for output in outputs]


def _moved(inputs: tuple[Given, ...], program: Program, turn: int) -> tuple[Given, ...]:
    """The inputs in float64, each number moved by one unit in the last place of the cell's dtype, up or down."""
    seed = stable_seed(program.seed, program.case.label, "moved", str(turn))
    generator = torch.Generator().manual_seed(seed)

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        step = torch.finfo(tensor.dtype).eps
        signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1)
        return tensor.double() * (1 + step * signs.to(tensor.device))

    everything: tuple[Given, ...] = tree_map_only(torch.Tensor, moved, inputs)
    return everything
