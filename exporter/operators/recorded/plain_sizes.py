"""Composite operators whose implementation in C++ asks for plain sizes, as written with operators that do not.

They are only replaced where a size is dynamic, and some of them only where it depends on values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._refs.linalg
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import instead_of

_aten = torch.ops.aten


def _where_any(is_asked_for: Callable[[Size], bool], why: str, *ops: OpOverload | str) -> Callable[..., Any]:
    """Replace operators where there is such a size among those of their arguments."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def instead(*args: Any, **kwargs: Any) -> Any:
            leaves = tree_leaves((args, kwargs))
            sizes = itertools.chain.from_iterable(each.shape for each in leaves if isinstance(each, torch.Tensor))
            return function(*args, **kwargs) if any(map(is_asked_for, sizes)) else NotImplemented

        return instead_of(*ops, why=why)(instead)

    return register


def _where_dynamic(*ops: OpOverload | str) -> Callable[..., Any]:
    return _where_any(lambda size: isinstance(size, torch.SymInt), "torch's own reads sizes as plain ints", *ops)


def _where_of_values(*ops: OpOverload | str) -> Callable[..., Any]:
    return _where_any(
        lambda size: isinstance(size, torch.SymInt) and not size.node.has_hint(),
        "torch's own asks for a size that depends on values whether it is 0 or 1",
        *ops,
    )


# --- linear algebra -----------------------------------------------------------------------------------------------


@_where_dynamic("aten::linalg_matrix_norm", "aten::linalg_matrix_norm.str_ord")
def _matrix_norm(
    self: torch.Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Any:
    if ord not in ("nuc", 2, -2):
        return torch._refs.linalg.matrix_norm(self, ord, tuple(dim), keepdim, dtype=dtype)
    rows, columns = (axis % self.ndim for axis in dim)
    values = torch.linalg.svdvals((self if dtype is None else self.to(dtype)).movedim((rows, columns), (-2, -1)))
    norm = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
    if keepdim:
        for axis in sorted((rows, columns)):
            norm = norm.unsqueeze(axis)
    return norm


@_where_dynamic("aten::linalg_norm", "aten::linalg_norm.ord_str")
def _norm(
    self: torch.Tensor,
    ord: float | str | None = None,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Any:
    axes = tuple(range(self.ndim)) if dim is None else tuple(dim)
    if ord is not None and len(axes) == 2:
        return torch.linalg.matrix_norm(self, ord, axes, keepdim, dtype=dtype)
    assert not isinstance(ord, str), "torch has refused it"
    return torch.linalg.vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@_where_dynamic("aten::linalg_multi_dot")
def _multi_dot(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """From the left to the right. Which order takes the least time depends on the sizes."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    return functools.reduce(torch.matmul, tensors)


@_where_dynamic("aten::kron")
def _kron(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    axes = max(self.ndim, other.ndim)
    ours = (*[1] * (axes - self.ndim), *self.shape)
    theirs = (*[1] * (axes - other.ndim), *other.shape)
    left = self.reshape([size for each in ours for size in (each, 1)])
    right = other.reshape([size for each in theirs for size in (1, each)])
    return (left * right).reshape([a * b for a, b in zip(ours, theirs, strict=True)])


@_where_dynamic("aten::linalg_vander")
def _vander(x: torch.Tensor, N: int | None = None) -> Any:
    """The powers of the elements, from 0 on."""
    powers = [torch.ones_like(x)]
    for _ in range((x.shape[-1] if N is None else N) - 1):
        powers.append(powers[-1] * x)
    return torch.stack(powers, -1)


@_where_dynamic("aten::vander")
def _vander_downwards(x: torch.Tensor, N: int | None = None, increasing: bool = False) -> Any:
    powers = _vander(x, N)
    return powers if increasing else powers.flip(1)


# --- statistics ---------------------------------------------------------------------------------------------------


@_where_dynamic("aten::isin.Tensor_Tensor")
def _isin(
    elements: torch.Tensor, test_elements: torch.Tensor, *, assume_unique: bool = False, invert: bool = False
) -> torch.Tensor:
    found = (elements.unsqueeze(-1) == test_elements.flatten()).any(-1)
    return ~found if invert else found


@_where_dynamic("aten::cov")
def _cov(
    self: torch.Tensor,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    return _covariances(self, correction, fweights, aweights).squeeze()


@_where_dynamic("aten::corrcoef")
def _corrcoef(self: torch.Tensor) -> torch.Tensor:
    covariances = _covariances(self, 1, None, None)
    deviations = covariances.diagonal().real.sqrt()
    found = covariances / deviations.unsqueeze(1) / deviations
    if found.is_complex():
        return torch.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1)).squeeze()
    return found.clamp(-1, 1).squeeze()


def _covariances(
    self: torch.Tensor, correction: int, fweights: torch.Tensor | None, aweights: torch.Tensor | None
) -> torch.Tensor:
    """The covariances of the rows, always as a matrix. A vector is one row."""
    x = self if self.ndim == 2 else self.reshape(1, -1)
    x = x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    weighed = x if weights is None else x * weights
    total = torch.full((), x.shape[1], dtype=torch.int64) if weights is None else weights.sum()
    degrees = total - correction
    if weights is not None and aweights is not None and correction:
        degrees = total - correction * (weights * aweights).sum() / total
    centred = x - (weighed.sum(1) / total).unsqueeze(1)
    if weights is not None:
        # One observation is its own mean, also where rounding says otherwise.
        centred = torch.where(torch.full((), x.shape[1], device=x.device) == 1, 0, centred)
    products = centred @ (centred if weights is None else centred * weights).t().conj()
    return products / degrees.clamp(min=0)


# --- differences --------------------------------------------------------------------------------------------------


@_where_dynamic("aten::gradient.scalarint", "aten::gradient.scalararray", "aten::gradient.array")
def _gradient(
    self: torch.Tensor, *, spacing: float | None = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[torch.Tensor]:
    axes = _axes(self, dim)
    return _gradients(self, [1.0 if spacing is None else spacing] * len(axes), axes, edge_order)


@_where_dynamic(
    "aten::gradient.scalarrayint",
    "aten::gradient.scalarrayarray",
    "aten::gradient.tensorarrayint",
    "aten::gradient.tensorarray",
)
def _gradient_with_spacings(
    self: torch.Tensor, *, spacing: Sequence[Any], dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[torch.Tensor]:
    axes = _axes(self, dim)
    return _gradients(self, spacing if len(spacing) == len(axes) else list(spacing) * len(axes), axes, edge_order)


def _axes(x: torch.Tensor, dim: int | Sequence[int] | None) -> list[int]:
    return list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _gradients(x: torch.Tensor, spacings: Sequence[Any], axes: Sequence[int], edge_order: int) -> list[torch.Tensor]:
    if not all(isinstance(each, torch.Tensor) for each in spacings):
        return [_even_gradient(x, step, axis, edge_order) for axis, step in zip(axes, spacings, strict=True)]
    return [_uneven_gradient(x, places, axis, edge_order) for axis, places in zip(axes, spacings, strict=True)]


def _even_gradient(x: torch.Tensor, step: float, axis: int, edge_order: int) -> torch.Tensor:
    first, second, last, before = (x.narrow(axis, place, 1) for place in (0, 1, -1, -2))
    if edge_order == 1:
        start, end = (second - first) / step, (last - before) / step
    else:
        third, earlier = x.narrow(axis, 2, 1), x.narrow(axis, -3, 1)
        start = (second * 4 - first * 3 - third) / (2 * step)
        end = (last * 3 - before * 4 + earlier) / (2 * step)
    inner = (_aten.slice(x, axis, 2) - _aten.slice(x, axis, 0, -2)) / (2 * step)
    return torch.cat([start, inner, end], axis)


def _uneven_gradient(x: torch.Tensor, places: torch.Tensor, axis: int, edge_order: int) -> torch.Tensor:
    steps = places[1:] - places[:-1]
    shape = [1] * x.ndim
    shape[axis] = -1
    before, after = steps[:-1].reshape(shape), steps[1:].reshape(shape)
    ends = []
    for near, far, a, b in ((0, 1, steps[0], steps[1:2].sum()), (-1, -2, steps[-1], steps[-2:-1].sum())):
        first, second = (x.narrow(axis, place, 1) for place in (near, far))
        slope = (second - first) / a if near == 0 else (first - second) / a
        if edge_order != 1:
            third = x.narrow(axis, 2 if near == 0 else -3, 1)
            weights = -(2 * a + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b))
            slope = weights[0] * first + weights[1] * second + weights[2] * third
            slope = slope if near == 0 else -slope
        ends.append(slope)
    inner = (
        -after / (before * (before + after)) * _aten.slice(x, axis, 0, -2)
        + (after - before) / (before * after) * _aten.slice(x, axis, 1, -1)
        + before / (after * (before + after)) * _aten.slice(x, axis, 2)
    )
    return torch.cat([ends[0], inner, ends[1]], axis)


# --- choices ------------------------------------------------------------------------------------------------------


@_where_dynamic("aten::combinations")
def _combinations(self: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    if r == 0:
        return self.new_empty([0])
    places = torch.meshgrid([torch.arange(self.shape[0], device=self.device)] * r, indexing="ij")
    chosen = torch.ones_like(places[0], dtype=torch.bool)
    for one, following in itertools.pairwise(places):
        chosen = chosen & (one <= following if with_replacement else one < following)
    return torch.stack([self[place[chosen]] for place in places], 1)


# --- sizes of values ----------------------------------------------------------------------------------------------


@_where_of_values("aten::cdist")
def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2, compute_mode: int | None = None) -> Any:
    distances = torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)
    # The maximum over no features is -inf. torch's distance is 0.
    return distances.clamp_min(0) if math.isinf(p) else distances


@_where_of_values("aten::cosine_similarity")
def _cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, dim: int = 1, eps: float = 1e-8) -> Any:
    dtype = torch.result_type(x1, x2)
    # Broadcast first, so that the axis is counted in both.
    one, other = (x.to(dtype) + torch.zeros_like(like, dtype=dtype) for x, like in ((x1, x2), (x2, x1)))
    units = (x / torch.linalg.vector_norm(x, 2, dim, keepdim=True).clamp_min(eps) for x in (one, other))
    return functools.reduce(torch.mul, units).sum(dim)


@_where_of_values("aten::tensordot")
def _tensordot(
    self: torch.Tensor, other: torch.Tensor, dims_self: Sequence[int], dims_other: Sequence[int]
) -> torch.Tensor:
    contracted = dict(
        zip((axis % other.ndim for axis in dims_other), (axis % self.ndim for axis in dims_self), strict=True)
    )
    own = [*range(self.ndim)]
    others = [contracted.get(axis, self.ndim + axis) for axis in range(other.ndim)]
    kept = [*(axis for axis in own if axis not in contracted.values()), *(axis for axis in others if axis >= self.ndim)]
    return torch.einsum(self, own, other, others, kept)


@_where_of_values("aten::diff")
def _diff(
    self: torch.Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: torch.Tensor | None = None,
    append: torch.Tensor | None = None,
) -> torch.Tensor:
    x = torch.cat([each for each in (prepend, self, append) if each is not None], dim)
    for _ in range(n):
        before, after = _neighbours(x, dim)
        x = after.logical_xor(before) if x.dtype is torch.bool else after - before
    return x


@_where_of_values("aten::trapezoid.dx", "aten::trapz.dx")
def _trapezoid(y: torch.Tensor, *, dx: float = 1, dim: int = -1) -> torch.Tensor:
    before, after = _neighbours(y, dim)
    return (before + after).sum(dim) * (dx / 2)


@_where_of_values("aten::trapezoid.x", "aten::trapz.x")
def _trapezoid_at(y: torch.Tensor, x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    before, after = _neighbours(x, dim if x.ndim > 1 else 0)
    width = after - before
    if x.ndim == 1:
        width = width.reshape(-1, *[1] * (-1 - dim if dim < 0 else y.ndim - 1 - dim))
    before, after = _neighbours(y, dim)
    return ((before + after) * width).sum(dim) / 2


def _neighbours(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All elements along an axis that have a next one, and these next ones."""
    return _aten.slice.Tensor(x, dim, 0, -1), _aten.slice.Tensor(x, dim, 1)
