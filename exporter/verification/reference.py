"""What a runtime's outputs are measured from: torch's own, and what the same program gives in float64.

`verify` and the harness both judge by it. They differ in what a program is, how it is called and which seeds they draw
from; each hands that over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from onnx_parity.exporter.arrays import Array, Float64Array, to_array
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.exporter.verification.float64 import in_dtype
from onnx_parity.exporter.verification.module_copy import Weights, copied
from onnx_parity.exporter.verification.oracle import Expected, expect

__all__ = ["MOVES", "Twin", "as_judged", "expected_outputs", "moved"]

_Program = TypeVar("_Program", bound=Callable[..., Any])
_Inputs = TypeVar("_Inputs")

#: How often the inputs are moved to see how far the outputs follow. An element with cancellation looks ten times as
#: stable as it is in one draw of signs out of thirteen; in all of four, three times in a hundred thousand.
MOVES = 4
#: Bytes of weights above which they are not converted at once but by each operator that reads them.
_MOST_CONVERTED = 1 << 30
#: A program that cannot be computed in another dtype raises one of these: it has no kernel, or checks its dtypes.
_NOT_IN_THIS_DTYPE = (RuntimeError, TypeError, ValueError, VerificationError)


class Twin(Generic[_Program, _Inputs]):
    """A program with the same weights in another floating dtype. A program may turn out to have none."""

    def __init__(
        self, program: _Program, dtype: torch.dtype, call: Callable[[_Program, _Inputs], Iterable[torch.Tensor]]
    ) -> None:
        """`call` runs the program, or the copy of it that it is given, and returns its outputs."""
        self._program = program
        self._dtype = dtype
        self._call = call
        #: The ways to run it that may still work, the best one first. Operators and modules that compare dtypes, as
        #: convolutions with a bias and recurrent layers do, need their weights converted; others insist on the weights'
        #: own dtype, and are converted operator by operator.
        self._ways: list[Weights | None] = [None]
        weights = Weights(program, dtype)
        if weights.nbytes:
            self._ways.insert(0 if weights.nbytes <= _MOST_CONVERTED else 1, weights)
        self._has_worked = False

    def outputs(self, inputs: _Inputs) -> list[Float64Array] | None:
        """The outputs, as float64; None where the program cannot be computed in this dtype."""
        converted = tree_map_only(torch.Tensor, self._converted, inputs)
        while self._ways:
            program = copied(self._program, self._ways[0])
            try:
                with in_dtype(self._dtype):
                    outputs = list(self._call(program, converted))
            except _NOT_IN_THIS_DTYPE:
                if self._has_worked:
                    # It is these inputs that it does not take.
                    return None
                del self._ways[0]
            else:
                self._has_worked = True
                return [as_judged(output).astype(np.float64) for output in outputs]
        return None

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to(self._dtype) if tensor.is_floating_point() else tensor


def moved(inputs: _Inputs, seed: int) -> _Inputs:
    """The inputs in float64, each number moved by one unit in the last place of its dtype, up or down."""
    generator = torch.Generator().manual_seed(seed)

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1)
        return tensor.detach().double() * (1 + torch.finfo(tensor.dtype).eps * signs.to(tensor.device))

    everything: _Inputs = tree_map_only(torch.Tensor, move, inputs)
    return everything


def expected_outputs(
    values: Sequence[Array],
    inputs: _Inputs,
    twin: Twin[Any, _Inputs] | None,
    coarse: Twin[Any, _Inputs] | None,
    *,
    seeds: Sequence[int],
    moved_by: float,
    declared: float | None = None,
    signed_zeros: bool = True,
) -> list[Expected]:
    """What to hold a runtime to, where torch gives these values for these inputs.

    `twin` is the program in float64, None where errors are not to be measured from that. `coarse` is the program in
    float32, whose error stands for torch's own in outputs that are float64 themselves. The inputs are moved once with
    each of the seeds; the other arguments are those of `expect`.
    """
    exact = None if twin is None else twin.outputs(inputs)
    followed = [None if twin is None else twin.outputs(moved(inputs, seed)) for seed in seeds]
    wide = any(value.dtype == np.float64 for value in values)
    of_float32 = coarse.outputs(inputs) if wide and coarse is not None else None
    return [
        expect(
            value,
            _at(exact, number),
            [other for outputs in followed if (other := _at(outputs, number)) is not None],
            moved_by=moved_by,
            coarse=_at(of_float32, number),
            declared=declared,
            signed_zeros=signed_zeros,
        )
        for number, value in enumerate(values)
    ]


def as_judged(tensor: torch.Tensor) -> Array:
    """A tensor as the oracle takes it: complex numbers as pairs, as ONNX has them."""
    return to_array(torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor)


def _at(outputs: Sequence[Float64Array] | None, number: int) -> Float64Array | None:
    return outputs[number] if outputs is not None and number < len(outputs) else None
