"""Programs over rows whose number varies, and over rows and elements that a condition selects, which may be none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import floats, op

_ROWS = {"x": {0: "rows"}}
_VARYING = {"rows": (3, 7)}


def _of_chosen(function: Callable[[torch.Tensor], object]) -> Callable[[torch.Tensor], object]:
    """The function of the rows whose first element is positive."""

    def program(x: torch.Tensor) -> object:
        return function(x[x[:, 0] > 0])

    return program


def _weights(x: torch.Tensor) -> torch.Tensor:
    return x[:, 0].abs() + 0.5


def _places(x: torch.Tensor) -> torch.Tensor:
    return _weights(x).cumsum(0)


def _norms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    norm, batch = torch.linalg.norm, torch.stack([x, x + 1, x * x])
    return (
        norm(x), norm(x, "fro"), norm(x, 1), norm(x, -1), norm(x, float("inf")), norm(x, 3, dim=0),
        norm(x, dim=(0, 1), keepdim=True), norm(batch, dim=(0, 2)), norm(x[:, 0], float("inf")),
        torch.linalg.matrix_norm(batch, float("-inf"), dim=(2, 1)),
    )  # fmt: skip


def _spectral_norms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    batch = torch.stack([x, x + 1, x * x])
    return (
        torch.linalg.norm(x, 2),
        torch.linalg.norm(x, -2),
        torch.linalg.matrix_norm(batch, "nuc", dim=(2, 0), keepdim=True),
        torch.linalg.matrix_norm(batch, 2, dim=(1, 2)),
    )


def _covariances(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    counts = torch.ones_like(x[:, 0]).long() * 2
    return (
        x.T.cov(),
        x.T.cov(correction=0),
        x.T.cov(fweights=counts),
        x.T.cov(aweights=_weights(x)),
        x.T.cov(correction=2, fweights=counts, aweights=_weights(x)),
        x[:, 0].cov(),
        (x * 3).long().T.cov(),
        x.T.corrcoef(),
    )


def _slopes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    gradient = torch.gradient
    return (
        *gradient(x),
        *gradient(x, dim=-2, spacing=2.0),
        *gradient(x, dim=0, edge_order=2),
        *gradient(x, dim=[1, 0], spacing=[2.0, 0.5], edge_order=2),
        *gradient(x, dim=0, spacing=(_places(x),)),
        *gradient(x, dim=0, spacing=(_places(x),), edge_order=2),
    )


def _products(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.kron(x, x[:2]),
        torch.kron(x, torch.arange(3.0)),
        torch.linalg.multi_dot([x, x.T, x]),
        torch.linalg.multi_dot([x[:, 0], x, x.T, x[:, 1]]),
    )


def _powers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.vander(x[:, 0], 4), torch.vander(x[:, 0], 3, increasing=True), torch.linalg.vander(x, N=4)


def _choices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x[:, 0]
    return torch.combinations(x), torch.combinations(x, 3, with_replacement=True), torch.combinations(x, 1)


def _others(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.logsumexp(0), x.logsumexp((0, 1), keepdim=True), x.take(torch.tensor([0, 3]))


def _contractions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.linspace(-1, 2, 12).reshape(3, 4)
    return (
        torch.cdist(x, y),
        torch.cdist(y, x[None], 1.0),
        F.cosine_similarity(x, y[1:2]),
        F.cosine_similarity(x, 2 * x, 0, 1.0),
        torch.tensordot(x, y, ([1], [1])),
        torch.tensordot(y, x, 0),
    )


def _differences(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    places = torch.nonzero(x[:, 0] > 0.5)[:, 0]
    return x.diff(dim=0), x.diff(2), (x > 0).diff(1, 0), torch.diff(places, prepend=torch.tensor([-1]))


def _areas(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.trapezoid(x, dim=0), torch.trapz(x, _places(x), dim=0), torch.trapezoid(x, dx=0.5)


norms_of_rows = op(_norms, floats(5, 4), dynamic=_ROWS, sizes=_VARYING)
spectral_norms_of_rows = op(_spectral_norms, floats(5, 4), dynamic=_ROWS, sizes=_VARYING, tier="default")
covariances_of_rows = op(
    _covariances,
    floats(5, 4),
    dynamic=_ROWS,
    sizes=_VARYING,
    without_nan="the processor decides which integer NaN becomes",
)
weighted_covariances_of_one_row = op(
    lambda x: x.T.cov(aweights=_weights(x)), floats(5, 8), dynamic=_ROWS, sizes={"rows": [1, 6]}
)
correlations_of_rows = op(torch.corrcoef, floats(5, 4), dynamic=_ROWS, sizes={"rows": [1, 7]})
slopes_of_rows = op(_slopes, floats(5, 4), dynamic=_ROWS, sizes=_VARYING)
products_of_rows = op(_products, floats(5, 4), dynamic=_ROWS, sizes=_VARYING)
powers_of_rows = op(_powers, floats(5, 4), dynamic=_ROWS, sizes=_VARYING)
choices_of_rows = op(_choices, floats(5, 4), dynamic=_ROWS, sizes=_VARYING)
others_of_rows = op(_others, floats(5, 4), dynamic=_ROWS, sizes=_VARYING)

products_of_chosen = op(_of_chosen(_products), floats(9, 4))
powers_of_chosen = op(_of_chosen(_powers), floats(9, 4))
covariances_of_chosen = op(
    _of_chosen(_covariances), floats(9, 4), without_nan="the processor decides which integer NaN becomes"
)
others_of_chosen = op(_of_chosen(_others), floats(9, 4))
contractions_of_chosen = op(_of_chosen(_contractions), floats(9, 4))
differences_of_chosen = op(_of_chosen(_differences), floats(9, 4))
areas_of_chosen = op(_of_chosen(_areas), floats(9, 4))

# --- elements that a condition selects, which may be none, one or many ------------------------------------------------


def counted(x: torch.Tensor) -> Any:
    return x.unique(return_counts=True), x.round().unique(return_inverse=True, return_counts=True)


def counted_in_order(x: torch.Tensor) -> Any:
    return x.round().unique_consecutive(return_inverse=True, return_counts=True)


def middle(x: torch.Tensor) -> Any:
    return x.median(), x.nanmedian(), x.long().median()


def rolled(x: torch.Tensor) -> Any:
    return x.roll(1), x.roll(-2, 0), x[:, None].repeat(1, 2).roll((1, 1), (0, 1))


def found(x: torch.Tensor) -> Any:
    tests = torch.arange(3)
    return torch.isin(x.long(), tests), torch.isin(tests, x.long(), invert=True)


def farthest(x: torch.Tensor) -> Any:
    return torch.cdist(x[None], x[None] + 1, math.inf), torch.pdist(x.repeat(3, 1), math.inf)


def _of_selected(x: torch.Tensor, f: Callable[[torch.Tensor], Any]) -> Any:
    return f(x[x > -math.inf])


of_none_or_more = op(
    _of_selected,
    floats(4),
    f=[counted, counted_in_order, middle, rolled, found, farthest],
    dynamic=_ROWS,
    sizes={"rows": [0, 1, 6]},
)
