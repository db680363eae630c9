"""Reduces a program that fails: outputs, lines, sizes, axes that vary, and values, as long as it fails alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.search.fixed import fix_values
from onnx_parity.harness.search.generated import GeneratedProgram, Input, Line
from onnx_parity.harness.search.generating import quietly
from onnx_parity.harness.search.looking import look
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import Failure, Point

#: The most programs that are tried; exporters that take seconds get fewer.
MOST_TRIED = 120
#: Seconds after which a process that looks at a program counts as dead.
_SECONDS = 60.0


@dataclass
class _Search:
    point: Point
    failure: Failure
    left: int
    dies: Callable[[GeneratedProgram], bool] | None = None

    def fails(self, program: GeneratedProgram) -> bool:
        """Whether a smaller program has the same fault of the same culprit."""
        if not self.left or not program.outputs:
            return False
        self.left -= 1
        if self.dies is not None:
            return self.dies(program)
        subject = ProbedProgram(program)
        try:
            if subject.example is None:
                return False
            found = look(subject, self.point).failure
        except Exception:  # noqa: BLE001  A part of a program may be no program: a value is missing, a size does not fit.
            return False
        finally:
            subject.release()
        return found is not None and alike(found, self.failure)


def alike(one: Failure, other: Failure) -> bool:
    return (one.culprit, one.fault) == (other.culprit, other.fault)


def dies_at(program: GeneratedProgram, point: Point, stderr: Path) -> bool:
    """Whether a process dies that looks at a program: a copy of this one."""

    def serve(channel: Channel) -> None:
        subject = ProbedProgram(program)
        with suppress(Exception), quietly():
            if subject.example is not None:
                look(subject, point)
        channel.send(b"survived")

    child = ChildProcess.forked(serve, stderr)
    try:
        child.answer(_SECONDS)
    except ProcessEndedError:
        return True
    finally:
        child.kill()
    return False


def reduce(
    program: GeneratedProgram,
    point: Point,
    failure: Failure,
    most: int = MOST_TRIED,
    dies: Callable[[GeneratedProgram], bool] | None = None,
) -> GeneratedProgram:
    """The smallest program that still fails in the same way. For crashes, `dies` says whether a process dies."""
    search = _Search(point, failure, most, dies)
    with quietly():
        program = _first(search, program, ((program.with_lines(program.lines, [name])) for name in program.outputs))
        program = _first(search, program, [_keep_used(program)])
        program = _first(search, program, [_without_dynamic(program)])
        program = _shorter(search, program)
        for candidates in (_smaller, _plainer):
            done = False
            while not done:
                smaller = next((each for each in candidates(program) if search.fails(each)), None)
                done = smaller is None
                program = smaller or program
    return program


def _first(
    search: _Search, program: GeneratedProgram, candidates: Sequence[GeneratedProgram] | Iterator[GeneratedProgram]
) -> GeneratedProgram:
    return next((each for each in candidates if each != program and search.fails(each)), program)


def _keep_used(program: GeneratedProgram) -> GeneratedProgram:
    """The program without lines that nothing reads. Those that write to a value stay."""
    lines = list(program.lines)
    while True:
        read = {name for line in lines for name in line.reads} | set(program.outputs)
        kept = [line for line in lines if not line.makes or read & set(line.makes)]
        if len(kept) == len(lines):
            return program.with_lines(kept)
        lines = kept


def _without_dynamic(program: GeneratedProgram) -> GeneratedProgram:
    return replace(program, inputs=tuple(replace(each, dynamic={}) for each in program.inputs))


def _shorter(search: _Search, program: GeneratedProgram) -> GeneratedProgram:
    """Leave out lines, the largest parts first. A value whose line is left out becomes an input."""
    size = max(1, len(program.lines) // 2)
    while True:
        start = 0
        while start < len(program.lines):
            lines = (*program.lines[:start], *program.lines[start + size :])
            smaller = _cut(program, lines) if lines else None
            if smaller is not None and search.fails(smaller):
                program = smaller
            else:
                start += size
        if size == 1:
            # A line whose results nothing reads may still be needed: some calls write to an argument.
            return _first(search, program, [_keep_used(program)])
        size //= 2


def _cut(program: GeneratedProgram, lines: Sequence[Line]) -> GeneratedProgram | None:
    """The program with these lines only, where values that are missing are inputs with the values that they had."""
    made = {name for line in lines for name in line.makes}
    known = made | {each.name for each in program.inputs}
    missing = {name for line in lines for name in line.reads} - known
    if missing and program.dynamic_axes:
        return None
    values = _values(program, missing)
    if values is None:
        return None
    inputs = [Input(name, fix_values(tensor), {}) for name, tensor in values.items()]
    outputs = [name for name in program.outputs if name in made] or [*lines[-1].makes, *lines[-1].reads[:1]][:1]
    return replace(program, inputs=(*program.inputs, *inputs)).with_lines(lines, outputs)


def _values(program: GeneratedProgram, wanted: set[str]) -> dict[str, torch.Tensor] | None:
    """The values that these names have when they are bound; None if the program does not run so far."""
    found: dict[str, torch.Tensor] = {}
    try:
        for name, value in program.bound([value.clone() for value in program.values()]):
            if name in wanted:
                found[name] = value.clone()
            if len(found) == len(wanted):
                break
    except Exception:  # noqa: BLE001  A part of a program may be no program.
        return None
    return found if wanted <= set(found) else None


def _tensors(program: GeneratedProgram) -> Mapping[str, torch.Tensor]:
    arguments = dict(zip((each.name for each in program.arguments), program.values(), strict=True))
    return {**arguments, **program.constants()}


def _given(program: GeneratedProgram, tensors: Mapping[str, torch.Tensor]) -> GeneratedProgram:
    inputs = (replace(each, maker=fix_values(tensors[each.name]), dynamic={}) for each in program.inputs)
    return replace(program, inputs=tuple(inputs))


def _smaller(program: GeneratedProgram) -> Iterator[GeneratedProgram]:
    """Every axis of one size cut to another, in all inputs together, so that what was equal stays equal."""
    if program.dynamic_axes:
        return
    tensors = _tensors(program)
    sizes = sorted({size for tensor in tensors.values() for size in tensor.shape if size > 1}, reverse=True)
    for size in sizes:
        for wanted in dict.fromkeys((1, 2, size - 1)):
            if wanted < size:
                cut = {
                    name: tensor[tuple(slice(wanted if each == size else None) for each in tensor.shape)]
                    for name, tensor in tensors.items()
                }
                yield _given(program, cut)


def _plainer(program: GeneratedProgram) -> Iterator[GeneratedProgram]:
    """Every input with plainer values: rounded to one digit, one of them at a time."""
    if program.dynamic_axes:
        return
    tensors = _tensors(program)
    for name, tensor in tensors.items():
        for decimals in (0, 1):
            if tensor.is_floating_point() and tensor.numel() and bool(torch.isfinite(tensor).all()):
                rounded = tensor.double().round(decimals=decimals).to(tensor.dtype)
                if not torch.equal(rounded, tensor) and _digits(tensor) > decimals:
                    yield _given(program, {**tensors, name: rounded})
                    break


def _digits(tensor: torch.Tensor) -> int:
    """How many decimals the elements have, at most 3."""
    wide = tensor.double()
    for decimals in range(3):
        if math.isclose((wide - wide.round(decimals=decimals)).abs().max().item(), 0.0, abs_tol=1e-3 * 10**-decimals):
            return decimals
    return 3
