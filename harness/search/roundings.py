"""Whether rounding alone may explain a difference from torch's results, so that it is no fault of an exporter.

The inputs of a search are such that its results do not jump where they move a little. Still, an operator in between may
be at a jump that no input reaches: the `floor` of a sum that would be 0 without rounding, or the inverse of a matrix
that would be singular. So a program that seems to be wrong is computed again in float64, several times, while the
result of each operator is rounded up or down by chance, as if it were of the program's own dtype. Results that can be
represented exactly are left as they are: the `floor` of an integer, and equal values, mean what they say. Only where
torch leaves open which of equal values comes first, one does by chance, and so do eigenvalues of a matrix that LAPACK
permutes; and where ONNX leaves the sign of a zero open, which `copysign` or a quotient may ask for, it is by chance
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from onnx_parity.exporter.arrays import Array, Float64Array, Mask
from onnx_parity.exporter.verification.oracle import Expected, Verdict
from onnx_parity.harness.judging.reference import Trial
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.zeros import WITHOUT_SIGN

__all__ = ["may_be_rounding"]

#: How often the program is computed. A sign is right by chance half of the time, and every element has to be explained.
_TIMES = 16
#: Rounding explains a difference if it alone makes this share of it.
_SHARE = 1 / 16

#: Operators that return the places of values, and leave open which of equal ones is meant.
_ORDERING = frozenset(("kthvalue", "topk", "median", "nanmedian", "mode", "sort"))
#: Operators that return eigenvalues, whose order torch leaves open. LAPACK's is another one if it permutes the matrix.
_UNORDERED = frozenset(("linalg_eig", "linalg_eigvals", "_linalg_eigvals"))
#: The start of the names of operators whose factors are never exact.
_TRANSFORM = "_fft"
#: Equal values are made to differ by this, relative to them. It is nothing beside a rounding.
_SMALL = 1e-12


def may_be_rounding(subject: ProbedProgram, trial: Trial, outputs: Sequence[object], verdict: Verdict) -> bool:
    """Whether rounding alone makes other results of all elements of the output that a verdict says is wrong."""
    if verdict.metrics is None:
        return False
    place = verdict.metrics.output
    got, want = outputs[place], trial.expected[place]
    assert isinstance(got, np.ndarray), "an output with metrics is an array"
    left = _wrong(got, want)
    for seed in range(_TIMES):
        with _Rounding(subject.coarsest, seed):
            rounded = subject.twin.outputs(trial.inputs)
        if rounded is None:
            return False
        if rounded[place].shape != got.shape:
            return True
        left &= ~_are_as_far(rounded[place], got, want.value)
    return not left.any()


def _wrong(got: Array, want: Expected) -> Mask:
    """The elements that are wrong: all that differ, or those that differ by more than their tolerance."""
    wide, right = got.astype(np.float64), want.value.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.zeros_like(wide, bool)
        if want.centre is not None and want.tolerance is not None:
            near = np.abs(wide - want.centre) <= want.tolerance
        same = (wide == right) | (np.isnan(wide) & np.isnan(right))
    flipped = (wide == 0) & (right == 0) & (np.signbit(wide) != np.signbit(right))
    wrong: Mask = ~(same | near) | (flipped if want.zeros is None else flipped & want.zeros)
    return wrong


def _are_as_far(rounded: Float64Array, got: Array, value: Array) -> Mask:
    """The elements that differ from torch's `value` in what a runtime `got`, and in what is `rounded`."""
    wide, right = got.astype(np.float64), value.astype(np.float64)
    flipped = (wide == 0) & (right == 0) & (np.signbit(wide) != np.signbit(right))
    with np.errstate(all="ignore"):
        differs = (wide != right) & ~(np.isnan(wide) & np.isnan(right))
        far = np.abs(rounded - right) > _SHARE * np.abs(wide - right)
        unlike = np.isfinite(rounded) != np.isfinite(right)
        other_sign = (rounded != 0) | (np.signbit(rounded) != np.signbit(right))
    as_far: Mask = (differs & (far | unlike)) | (flipped & other_sign)
    return as_far


class _Rounding(TorchDispatchMode):
    """Rounds the results of operators, up or down, by a step relative to what they are computed from."""

    supports_higher_order_operators = True

    def __init__(self, step: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._step = step
        #: What results are rounded to. In float64 all are taken as exact.
        self._dtype = torch.float32 if step > torch.finfo(torch.float64).eps else torch.float64
        self._random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            return func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        if name in _ORDERING:
            args = (self._unequal(args[0]), *args[1:])
        result = func(*args, **(kwargs or {}))
        if _is_view(func):
            return result
        if name in _UNORDERED and _is_permuted(args[0]):
            order = torch.randperm(args[0].shape[-1], generator=self._random)
            for each in tree_leaves(result):
                each.copy_(each[..., order])
        if name.strip("_") in WITHOUT_SIGN:
            for tensor in map(_plain, tree_leaves(result)):
                tensor.copy_(torch.where(tensor == 0, self._chance(tensor).sign() * 0, tensor))
        largest = 0.0
        if torch.Tag.pointwise not in func.tags:
            largest = max(
                (float(each.abs().max()) for each in map(_plain, tree_leaves(args)) if each.numel()), default=0
            )
        for tensor in map(_plain, tree_leaves(result)):
            self._round(tensor, largest, keeps_exact=not name.startswith(_TRANSFORM))
        return result

    def _unequal(self, values: object) -> object:
        tensor = _plain(values)
        return tensor * (1 + _SMALL * self._chance(tensor)) if tensor is values else values

    def _round(self, tensor: torch.Tensor, largest: float, *, keeps_exact: bool) -> None:
        """Round what is not exact. Of sums and products of matrices a step is relative to the largest operand."""
        is_kept = ~tensor.isfinite()
        if keeps_exact:
            is_kept |= tensor.to(self._dtype).double() == tensor
        if not bool(is_kept.all()):
            step = self._step * tensor.abs().clamp(min=largest)
            rounded = (tensor + step * self._chance(tensor)).to(self._dtype).double()
            tensor.copy_(torch.where(is_kept, tensor, rounded))

    def _chance(self, tensor: torch.Tensor) -> torch.Tensor:
        """Numbers from -1 to 1, for each element."""
        return torch.rand(tensor.shape, generator=self._random, dtype=torch.float64) * 2 - 1


def _is_permuted(matrices: torch.Tensor) -> bool:
    """Whether a row or a column of a matrix is zero beside the diagonal, which LAPACK moves to its edge."""
    beside = (matrices - torch.diag_embed(matrices.diagonal(dim1=-2, dim2=-1))) != 0
    return not bool(beside.any(-1).all() and beside.any(-2).all())


def _is_view(func: OpOverload) -> bool:
    returned = [each.alias_info for each in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def _plain(leaf: object) -> torch.Tensor:
    """A tensor in float64, with real numbers for complex ones; an empty one for anything else.

    Zeros without memory, which autograd uses as derivatives, count as empty: they are exact, and reading their elements
    ends the process.
    """
    if isinstance(leaf, torch.Tensor) and leaf._is_zerotensor():
        return torch.empty(0)
    if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.complex128:
        leaf = torch.view_as_real(leaf.resolve_conj())
    return leaf if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float64 else torch.empty(0)
