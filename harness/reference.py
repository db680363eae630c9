"""What torch says: its own result in the cell's dtype, and the float64 results that the oracle judges by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from harness.arrays import Array, Float64Array, to_array
from harness.oracle import Expected, expect
from harness.program import InputSet, Program, build
from harness.record import Kind
from harness.seeds import stable_seed

#: How often the inputs are moved to see what the output makes of it. An element with cancellation looks ten times as
#: stable as it is in one draw of signs out of thirteen; in all of four, three times in a hundred thousand.
_MOVES = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """One input set: what goes in, what should come out."""

    which: InputSet
    inputs: tuple[torch.Tensor, ...]
    feeds: Mapping[str, Array]
    expected: tuple[Expected, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """All that torch is asked about a case at a dtype, shared by its cells at every opset."""

    example: Trial
    other_values: Trial | None
    other_sizes: tuple[Trial, ...]


class _InFloat64(TorchDispatchMode):
    """Computes in float64 whatever a program asks for by name or holds as a constant in a smaller floating dtype."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch's switch for modes that need no shielding from torch.compile: that would import dynamo, 1.5 s."""
        return False

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        return func(*tree_map(_widened, args), **tree_map(_widened, dict(kwargs or {})))


def _widened(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


def consult(program: Program) -> Reference:
    """Run torch on every input set of a case."""
    twin = _Twin(program)
    example = _trial(program, twin, InputSet())
    other = InputSet(draw=1)
    values_matter = any(not torch.equal(a, b) for a, b in zip(example.inputs, program.inputs(other), strict=True))
    return Reference(
        example=example,
        other_values=_trial(program, twin, other) if values_matter else None,
        other_sizes=tuple(_trial(program, twin, sizes) for sizes in program.other_sizes()),
    )


def _trial(program: Program, twin: _Twin, which: InputSet) -> Trial:
    inputs = program.inputs(which)
    values = [to_array(output) for output in program.run(inputs)]
    operator = program.case.declaration.kind is Kind.OPERATOR
    exact = twin.run(inputs)
    moved = [twin.run(_moved(inputs, program, turn)) for turn in range(_MOVES)] if operator else []
    expected = tuple(
        expect(
            value,
            _output(exact, number),
            [other for outcome in moved if (other := _output(outcome, number)) is not None],
            moved_by=torch.finfo(getattr(torch, program.dtype)).eps if moved else 0.0,
            declared=program.case.declaration.tolerance,
        )
        for number, value in enumerate(values)
    )
    feeds = {name: to_array(tensor) for name, tensor in zip(program.input_names, inputs, strict=True)}
    return Trial(which, inputs, feeds, expected)


def _output(outputs: Sequence[Float64Array] | None, number: int) -> Float64Array | None:
    return outputs[number] if outputs is not None and number < len(outputs) else None


class _Twin:
    """The same program with the same weights in float64, until it turns out that it has none."""

    def __init__(self, program: Program) -> None:
        self._dtype = program.dtype
        self._program: Program | None = None
        if not program.dtype.is_floating:
            return
        holds_state = program.weight_bytes > 0
        # Built anew rather than converted and back: the exporter may hold the original's storage.
        twin = build(program.case, program.dtype, program.device, program.seed) if holds_state else program
        if holds_state:
            twin.module.double()
        self._program = replace(twin, dtype=program.dtype)

    def run(self, inputs: tuple[torch.Tensor, ...]) -> list[Float64Array] | None:
        if self._program is None:
            return None
        wide = tuple(tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs)
        try:
            with _InFloat64():  # type: ignore[no-untyped-call]
                outputs = self._program.run(wide)
        except (RuntimeError, TypeError, ValueError):
            # No kernel, or a program that insists on its dtype: the oracle then falls back to the dtype's tolerance.
            self._program = None
            return None
        return [to_array(output).astype(np.float64) for output in outputs]


def _moved(inputs: tuple[torch.Tensor, ...], program: Program, turn: int) -> tuple[torch.Tensor, ...]:
    """The inputs in float64, each number moved by one unit in the last place of the cell's dtype, up or down."""
    seed = stable_seed(program.seed, program.case.label, "moved", str(turn))
    generator = torch.Generator().manual_seed(seed)
    moved = []
    for tensor in inputs:
        if not tensor.is_floating_point():
            moved.append(tensor)
            continue
        step = torch.finfo(tensor.dtype).eps
        signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1)
        moved.append(tensor.double() * (1 + step * signs.to(tensor.device)))
    return tuple(moved)
