"""Reductions of nested tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, Rule, refused
from onnx_parity.exporter.kinds.nested.strided import Strided

_Axes = int | Sequence[int] | None


@Strided.rule("sum")
def _sum_strided(func: Function, nt: Strided, dim: Any, keepdim: bool = False, **options: Any) -> Strided:
    axes = [nt.axis(each, "sum") for each in ([dim] if isinstance(dim, int) else dim)]
    return nt.apply(torch.sum, axes, keepdim, **options)


def _reduced(padding: Callable[[torch.dtype], Any], to_usual_size: bool = False) -> Rule:
    """The rule of a reduction, for which padding with this number changes nothing."""

    def rule(func: Function, nt: Jagged, dim: _Axes = None, keepdim: bool = False, **options: Any) -> Any:
        name = func.__name__
        of = getattr(torch, name)
        axes = None if isinstance(dim, (tuple, list)) and not dim else dim
        if axes is None:
            # These may be without an axis in other overloads only.
            made = of(nt.values(), **options)
            return made.reshape((1,) * nt.ndim) if keepdim else made
        if isinstance(axes, torch.Tensor | Jagged):
            return nt.pointwise({"max": torch.maximum, "min": torch.minimum}[name], (nt, axes), {})
        which = sorted({axis % nt.ndim for axis in ([axes] if isinstance(axes, int) else axes)})
        ragged = nt._ragged_idx
        if ragged not in which:
            inner = [nt.axis(axis, name) for axis in which]
            made = of(nt.values(), inner[0] if isinstance(axes, int) else inner, keepdim=keepdim, **options)
            moved = 0 if keepdim else sum(axis < nt.inner for axis in inner)
            return _each(made, lambda values: nt.alike(values, ragged - moved))
        if nt.lengths() is not None:
            raise refused(f"{name} along its ragged axis, where there are other values between its rows")
        if which[0] == 0:
            inner = [axis - 1 for axis in which if axis]
            made = of(nt.values(), inner, keepdim=keepdim, **options)
            return made.unsqueeze(0) if keepdim else made
        if len(which) > 1:
            raise refused(f"{name} along its ragged axis and others, but not along that of the rows")
        # torch pads to a size that may be greater than each length, which the least and the greatest value show where
        # a row is empty or has infinities alone.
        batch = nt.padded(padding(nt.dtype), nt.usual_size() if to_usual_size else nt.longest())
        return of(batch, ragged if isinstance(axes, int) else [ragged], keepdim=keepdim, **options)

    return rule


def _each(made: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    return type(made)([*map(function, made)]) if isinstance(made, tuple) else function(made)


def _least(dtype: torch.dtype) -> Any:
    return torch.finfo(dtype).min if dtype.is_floating_point else _of_ints(dtype)[0]


def _greatest(dtype: torch.dtype) -> Any:
    return torch.finfo(dtype).max if dtype.is_floating_point else _of_ints(dtype)[1]


def _of_ints(dtype: torch.dtype) -> tuple[int, int]:
    return (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


_sum = Jagged.rule("sum")(_reduced(lambda dtype: 0))
Jagged.rule("prod")(_reduced(lambda dtype: 1))
Jagged.rule("any")(_reduced(lambda dtype: False))
Jagged.rule("all")(_reduced(lambda dtype: True))
Jagged.rule("max", "amax", "argmax")(_reduced(_least, to_usual_size=True))
Jagged.rule("min", "amin", "argmin")(_reduced(_greatest, to_usual_size=True))
_mean_of_other_axes = _reduced(lambda dtype: 0)


@Jagged.rule("mean")
def _mean(func: Function, nt: Jagged, dim: _Axes = None, keepdim: bool = False, **options: Any) -> Any:
    along = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if [axis % nt.ndim for axis in along] != [nt._ragged_idx]:
        return _mean_of_other_axes(func, nt, dim, keepdim, **options)
    total = _sum(torch.sum, nt, along, True, **options)
    made = total / nt.lengths_of_rows().reshape([-1] + [1] * (total.ndim - 1))
    return made if keepdim else made.squeeze(nt._ragged_idx)
