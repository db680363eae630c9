"""The reference for a runtime's outputs: torch's results, and those of the same program in float64.

`verify` and the harness both use it. They differ in what a program is, how it is called, and the seeds, which they pass
as arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from msgspec.structs import replace

from onnx_parity.exporter.arrays import Array, Float64Array, Mask, in_width, is_float, to_array
from onnx_parity.exporter.containers import map_tensors
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.exporter.torch_inside.pytree import tree_leaves, tree_map, tree_map_only
from onnx_parity.exporter.verification.float64 import Inexact, in_dtype
from onnx_parity.exporter.verification.module_copy import Weights, copied
from onnx_parity.exporter.verification.oracle import LESS, Expected, Probes, expect, judge
from onnx_parity.exporter.verification.positions import Moves

__all__ = ["MOVES", "Measurement", "Twin", "moved"]

_Program = TypeVar("_Program", bound=Callable[..., Any])
_Inputs = TypeVar("_Inputs")

#: How often the inputs are changed to measure the sensitivity of the outputs. With one draw of signs, an element with
#: cancellation looks ten times less sensitive than it is in one case out of thirteen; with four draws, in three cases
#: out of a hundred thousand.
MOVES = 4
#: If the weights have more bytes than this, they are not converted at once but by each operator that reads them.
_MOST_CONVERTED = 1 << 30
#: How many of torch's errors at least show how large its errors are.
_SAMPLES = 8
#: What a program may raise in another dtype, or for inputs that are moved: a kernel is missing, it checks dtypes, or
#: rounding has changed a value that decides a size or an index.
_FAILURES = (
    ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError, VerificationError,
)  # fmt: skip


class Twin(Generic[_Program, _Inputs]):
    """The same program with its weights in another floating dtype. Not every program can be run in another dtype."""

    def __init__(
        self,
        program: _Program,
        dtype: torch.dtype,
        call: Callable[[_Program, _Inputs], Iterable[torch.Tensor]],
        written: Collection[str] = (),
    ) -> None:
        """`call` runs the program, or a copy of it, with inputs, and returns the outputs; `written` are weights that
        it writes to."""
        self._program = program
        self._written = written
        self._dtype = dtype
        self._call = call
        #: The weights to try to run it with, the best choice first; None converts them in each operator that reads
        #: them. Operators and modules that compare dtypes, such as convolutions with a bias and recurrent layers, need
        #: converted weights; others need weights of the original dtype.
        self._choices: list[Weights | None] = [None]
        weights = Weights(program, dtype)
        if weights.nbytes:
            self._choices.insert(0 if weights.nbytes <= _MOST_CONVERTED else 1, weights)
        self._has_worked = False

    def outputs(
        self, inputs: _Inputs, moves: Moves | None = None, inexact: Inexact | None = None
    ) -> list[Float64Array] | None:
        """The outputs, converted to float64; None if the program fails in this dtype or for these inputs."""
        converted = map_tensors(self._converted, inputs)
        while self._choices:
            try:
                # A weight that is a class of its own, as quantizers have them, may refuse the dtype.
                program = copied(self._program, self._choices[0], self._written)
                with in_dtype(self._dtype, moves, inexact):
                    outputs = list(self._call(program, converted))
            except _FAILURES:
                if self._has_worked:
                    # It has worked for other inputs, so these inputs are the reason.
                    return None
                del self._choices[0]
            else:
                self._has_worked = True
                return [to_array(output).astype(np.float64) for output in outputs]
        return None

    def outputs_if_moved(self, inputs: _Inputs, seed: int, share: float = 1.0) -> list[Float64Array] | None:
        """The outputs where the inputs, and the positions at which images are interpolated, are other ones by a unit in
        the last place, or by this share of it."""
        return self.outputs(moved(inputs, seed, share=share), Moves(seed, share))

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        return in_width(tensor.detach(), self._dtype)


def moved(inputs: _Inputs, seed: int, least: float = 0.0, share: float = 1.0) -> _Inputs:
    """The inputs in float64, with each number changed by one unit in the last place of its dtype, or this share of it,
    up or down, or by `least` of its size where that is more.

    On a GPU no number of magnitude at most 1 becomes larger than 1: a kernel that asserts that its numbers are
    probabilities would end all use of the device by this process. On the CPU such a kernel raises an error.
    """
    generator = torch.Generator().manual_seed(seed)

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return torch.view_as_complex(move(torch.view_as_real(tensor.resolve_conj())))
        if not tensor.is_floating_point():
            return tensor
        signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1)
        wide, signs, eps = tensor.detach().double(), signs.to(tensor.device), max(torch.finfo(tensor.dtype).eps, least)
        eps *= share
        if tensor.device.type != "cpu":
            magnitude = wide.abs()
            signs = torch.where((magnitude <= 1) & (magnitude * (1 + eps) > 1), -1.0, signs)
        return wide * (1 + eps * signs)

    everything: _Inputs = map_tensors(move, inputs)
    return everything


class Measurement(Generic[_Inputs]):
    """The expected outputs of a runtime, if torch returns these values for these inputs. Runs of the program are made
    when they are needed, and once.

    `twin` is the program in float64; None if errors are not to be measured from it. `coarse` is the program in float32,
    whose error is used as torch's own for float64 outputs. The inputs are changed once with each of the seeds. Without
    seeds, `again` runs the program for similar inputs, if an output has few elements. They differ by `rounded_by`, the
    precision of what is rounded inside, if that is more than the inputs' own. The other arguments are those of
    `expect`.
    """

    def __init__(
        self,
        values: Sequence[Array],
        inputs: _Inputs,
        twin: Twin[Any, _Inputs] | None,
        coarse: Twin[Any, _Inputs] | None,
        *,
        seeds: Sequence[int],
        moved_by: float,
        again: Callable[[_Inputs], Sequence[Array]] | None = None,
        rounded_by: float = 0.0,
        declared: float | None = None,
        signed_zeros: Sequence[bool] | bool = True,
    ) -> None:
        self.values = values
        self._inputs = inputs
        self._twin = twin
        self._coarse = coarse
        self._seeds = tuple(seeds)
        self._moved_by = moved_by
        self._again = again
        self._rounded_by = rounded_by
        self._declared = declared
        #: For each output, or one for all.
        self._signed_zeros = [signed_zeros] if isinstance(signed_zeros, bool) else signed_zeros or [True]
        self._followed: list[list[Float64Array] | None] = []
        self._inexact: dict[np.dtype[Any], list[list[Float64Array]]] = {}

    @cached_property
    def exact(self) -> list[Float64Array] | None:
        """The outputs in float64; None if the program cannot be run in it."""
        return None if self._twin is None else self._twin.outputs(self._inputs)

    def steps(self) -> Iterator[list[Expected]]:
        """The expected outputs with tolerances that need few runs, and then with larger ones, which need more.

        What is right by one of them is right by the last.
        """
        if self.exact is not None:
            yield from (self.expected(moves, closely=False) for moves in ((0, 1) if self._seeds else (0,)))
        yield self.expected()

    def expected(self, moves: int = MOVES, *, closely: bool = True) -> list[Expected]:
        """The expected outputs, if the inputs are changed this often at most.

        `closely` tells to find out which large changes are jumps, and how large torch's errors are for similar inputs.
        """
        followed = [outputs for seed in self._seeds[:moves] if (outputs := self._after(seed)) is not None]
        wide = any(value.dtype == np.float64 for value in self.values)
        of_float32 = self._of_float32 if wide else None
        nearby = self._nearby if closely and not self._seeds else ()
        return [
            expect(
                value,
                _at(self.exact, number),
                [other for outputs in followed if (other := _at(outputs, number)) is not None],
                moved_by=self._moved_by,
                rounded_by=self._rounded_by,
                nearby=[other for errors in nearby if (other := _at(errors, number)) is not None],
                coarse=_at(of_float32, number),
                probe=partial(self._probed, number) if closely and (self._seeds or self._again) else None,
                partly=moves < len(self._seeds),
                declared=self._declared,
                signed_zeros=self._signed_zeros[min(number, len(self._signed_zeros) - 1)],
            )
            for number, value in enumerate(self.values)
        ]

    def explains(self, expected: Sequence[Expected], *candidates: Sequence[Array]) -> bool:
        """Whether outputs are the program's as far as its own operators tell, each as wrong as it may be in its dtype.
        Where they decide whether an element is a number, it may be none."""
        if self.exact is None or not all(_are_like(outputs, expected) for outputs in candidates):
            return False
        wanted = [*expected]
        undecided: list[Mask] = [np.zeros(each.value.shape, bool) for each in expected]
        for dtype in {each.value.dtype for each in expected if is_float(each.value.dtype)}:
            runs = self._of_inexact_operators(dtype)
            for number, want in enumerate(expected):
                known = [outputs[number] for outputs in (self.exact, *runs)]
                if want.value.dtype != dtype or want.tolerance is None or len({each.shape for each in known}) > 1:
                    continue
                finite = np.isfinite(known)
                always = np.asarray(finite.all(0))
                undecided[number] = ~always & finite.any(0)
                wanted[number] = replace(want, tolerance=want.tolerance + np.ptp(np.where(always, known, 0.0), 0))
        return all(
            judge(
                [
                    np.where(known, want.value, got)
                    for known, want, got in zip(undecided, expected, outputs, strict=True)
                ],
                wanted,
            ).passed
            for outputs in candidates
        )

    def _of_inexact_operators(self, dtype: np.dtype[Any]) -> list[list[Float64Array]]:
        """The outputs in float64 where each operator of the program is as wrong as it may be in a dtype."""
        if self._twin is None:
            return []
        found = self._inexact.get(dtype)
        if found is None:
            runs = (self._twin.outputs(self._inputs, inexact=Inexact(dtype, seed)) for seed in range(MOVES))
            found = self._inexact[dtype] = [outputs for outputs in runs if outputs is not None]
        return found

    def _after(self, seed: int) -> list[Float64Array] | None:
        """The outputs in float64 for inputs that are changed, in the order of the seeds."""
        number = self._seeds.index(seed)
        if number == len(self._followed):
            self._followed.append(None if self._twin is None else self._twin.outputs_if_moved(self._inputs, seed))
        return self._followed[number]

    @cached_property
    def _of_float32(self) -> list[Float64Array] | None:
        return None if self._coarse is None else self._coarse.outputs(self._inputs)

    @cached_property
    def _nearby(self) -> Sequence[Sequence[Float64Array]]:
        """torch's errors for similar inputs, for as many as are needed by the output of the fewest elements."""
        if self._twin is None or self._again is None:
            return ()
        floats = (value.size for value in self.values if value.size and is_float(value.dtype))
        times = math.ceil(_SAMPLES / min(floats, default=_SAMPLES)) - 1
        return _errors_nearby(self.values, self._inputs, self._twin, self._again, self._rounded_by, times)

    @cached_property
    def _changes(self) -> list[tuple[list[Float64Array], list[Float64Array]]]:
        """The outputs for inputs that are changed, and changed less."""
        if self._twin is None:
            return []
        pairs = []
        for seed in self._seeds or range(MOVES):
            far = self._after(seed) if self._seeds else self._twin.outputs_if_moved(self._inputs, seed)
            near = self._twin.outputs_if_moved(self._inputs, seed, LESS)
            if far is not None and near is not None:
                pairs.append((far, near))
        return pairs

    @cached_property
    def _errors(self) -> list[list[Float64Array]]:
        """torch's errors for similar inputs."""
        if self._twin is None or self._again is None:
            return []
        return _errors_nearby(self.values, self._inputs, self._twin, self._again, self._rounded_by, MOVES)

    def _probed(self, number: int) -> Probes:
        pairs = ((_at(far, number), _at(near, number)) for far, near in self._changes)
        return Probes(
            changes=[(far, near) for far, near in pairs if far is not None and near is not None],
            errors=[other for errors in self._errors if (other := _at(errors, number)) is not None],
            inexact=[outputs[number] for outputs in self._of_inexact_operators(self.values[number].dtype)],
        )


def _are_like(outputs: Sequence[Array], expected: Sequence[Expected]) -> bool:
    return [each.shape for each in outputs] == [each.value.shape for each in expected]


def _errors_nearby(
    values: Sequence[Array],
    inputs: _Inputs,
    twin: Twin[Any, _Inputs],
    again: Callable[[_Inputs], Sequence[Array]],
    rounded_by: float,
    times: int,
) -> list[list[Float64Array]]:
    """torch's errors for similar inputs, as many times."""
    errors = []
    for seed in range(times):
        near = _similar(inputs, seed, rounded_by)
        exact = twin.outputs(near)
        if exact is None:
            break
        try:
            outputs = again(near)
        except _FAILURES:
            break
        if [output.shape for output in outputs] != [other.shape for other in exact]:
            break
        errors.append([np.abs(output.astype(np.float64) - other) for output, other in zip(outputs, exact, strict=True)])
    return errors


def _similar(inputs: _Inputs, seed: int, rounded_by: float) -> _Inputs:
    """The inputs with each number changed to one next to it; if all are integers, in another order."""
    if not any(isinstance(each, torch.Tensor) and _has_neighbours(each) for each in tree_leaves(inputs)):
        reordered: _Inputs = tree_map_only(
            torch.Tensor, lambda given: given.roll(seed + 1, -1) if given.dim() else given, inputs
        )
        return reordered
    everything: _Inputs = tree_map(
        lambda near, given: near.to(given.dtype) if isinstance(given, torch.Tensor) else near,
        moved(inputs, seed, rounded_by),
        inputs,
    )
    return everything


def _has_neighbours(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _at(outputs: Sequence[Float64Array] | None, number: int) -> Float64Array | None:
    return outputs[number] if outputs is not None and number < len(outputs) else None
