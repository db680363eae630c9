"""Models with a planted error, each of a kind that rounding might be taken for: a verification refuses them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity

_X = torch.linspace(-1.9, 2.0, 24).reshape(4, 6)
_SMALL = torch.tensor([[1e-6, -1e-5, 1e-4], [3e-5, -2e-6, 1.0]])


def _is_off_by_a_share(g: Any, x: Any) -> Any:
    return g.op("Mul", g.op("Relu", x), g.op("Constant", value_t=torch.tensor(1.0001)))


def _has_little_epsilon(g: Any, x: Any, *_args: Any, **_kwargs: Any) -> Any:
    scale = g.op("Constant", value_t=torch.ones(3))
    return g.op("LayerNormalization", x, scale, epsilon_f=1e-12)


def _forgets_the_last_row(g: Any, x: Any, mask: Any, value: Any) -> Any:
    rows = g.op("Constant", value_t=torch.tensor([[True], [True], [True], [False]]))
    return g.op("Where", g.op("And", mask, rows), g.op("Constant", value_t=torch.tensor(-1.0)), x)


def _forgets_the_last_element(g: Any, x: Any, *_args: Any, **_kwargs: Any) -> Any:
    constants = [g.op("Constant", value_t=torch.tensor([each])) for each in (0, -1, 1)]
    return g.op("ReduceSum", g.op("Slice", x, *constants), constants[2], keepdims_i=0)


def _has_the_other_sign_if_small(g: Any, x: Any) -> Any:
    is_small = g.op("Less", g.op("Abs", x), g.op("Constant", value_t=torch.tensor(1e-3)))
    return g.op("Where", is_small, g.op("Neg", x), g.op("Tanh", x))


def _drops_small_results(g: Any, x: Any) -> Any:
    is_small = g.op("Less", g.op("Abs", x), g.op("Constant", value_t=torch.tensor(5e-6)))
    return g.op("Where", is_small, g.op("Constant", value_t=torch.tensor(0.0)), g.op("Sin", x))


def _is_rounded(g: Any, x: Any) -> Any:
    """What is wrong by a few tolerances, and right in float64."""
    large = g.op("Constant", value_t=torch.tensor(64.0))
    return g.op("Sub", g.op("Add", g.op("Relu", x), large), large)


def _overflows(g: Any, x: Any) -> Any:
    return g.op("Log", g.op("Exp", x))


def _loses_digits_of_ints(g: Any, x: Any) -> Any:
    return g.op("Cast", g.op("Abs", g.op("Cast", x, to_i=1)), to_i=7)


def _is_in_float32(g: Any, x: Any) -> Any:
    return g.op("Cast", g.op("Sin", g.op("Cast", x, to_i=1)), to_i=11)


def _is_subtracted_from_0(g: Any, x: Any) -> Any:
    return g.op("Sub", g.op("Constant", value_t=torch.tensor(0.0)), x)


def _is_of_coarse_steps(g: Any, x: Any) -> Any:
    step = g.op("Constant", value_t=torch.tensor(2.0**-16))
    return g.op("Mul", g.op("Round", g.op("Div", g.op("Sigmoid", x), step)), step)


_PLANTED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], dict[str, Callable[..., Any]]]] = {
    "a share of 1e-4": (torch.relu, (_X,), {"aten::relu": _is_off_by_a_share}),
    "an epsilon": (
        lambda x: torch.layer_norm(x, (3,)), (_SMALL * 1e-2 * torch.tensor([[1.0], [0.0]]) + 1e-3 * _SMALL,),
        {"aten::layer_norm": _has_little_epsilon, "aten::native_layer_norm": _has_little_epsilon},
    ),
    "a mask of one row": (
        lambda x: x.masked_fill(x > 0, -1.0), (_X,), {"aten::masked_fill": _forgets_the_last_row},
    ),
    "the last element of a sum": (
        lambda x: x.sum(1), (_X,), {"aten::sum": _forgets_the_last_element},
    ),
    "signs of small results": (torch.tanh, (_SMALL,), {"aten::tanh": _has_the_other_sign_if_small}),
    "small results": (torch.sin, (_SMALL,), {"aten::sin": _drops_small_results}),
    "an overflow beside rounding": (
        lambda x, y: (x.relu(), y.abs()), (_X, torch.tensor([100.0, 1.0])),
        {"aten::relu": _is_rounded, "aten::abs": _overflows},
    ),
    "ints beside rounding": (
        lambda x, y: (x.relu(), y.abs()), (_X, torch.tensor([(1 << 24) + 1, 3])),
        {"aten::relu": _is_rounded, "aten::abs": _loses_digits_of_ints},
    ),
    "float32 within float64, beside float32": (
        lambda x: (x.relu(), torch.cat([x.double().flatten() * 1e5, x.double().flatten().sin() * 1e-3])), (_X,),
        {"aten::sin": _is_in_float32},
    ),
    "float32 of one input within float64, beside float32": (
        lambda x, y: (x.exp(), torch.cat([y.flatten() * 1e5, (y.flatten().sin() + 4 - 4) * 1e-3])),
        (_X, _X.double()), {"aten::sin": _is_in_float32},
    ),
    "float32 within float64": (
        lambda x: torch.cat([x.flatten() * 1e5, x.flatten().sin() * 1e-3]), (_X.double(),),
        {"aten::sin": _is_in_float32},
    ),
    "the sign of zero beside a sum": (
        lambda x: (x.sum(1), -x), (torch.zeros(2, 3),), {"aten::neg": _is_subtracted_from_0},
    ),
    "the sign of zero beside a maximum": (
        lambda x: (x.relu(), -x), (torch.zeros(2, 3),), {"aten::neg": _is_subtracted_from_0},
    ),
    "coarse steps": (torch.sigmoid, (_X,), {"aten::sigmoid": _is_of_coarse_steps}),
}  # fmt: skip


@pytest.mark.parametrize("name", _PLANTED)
def test_planted_errors_are_refused(name: str) -> None:
    program, inputs, table = _PLANTED[name]
    with pytest.raises(onnx_parity.VerificationError, match="differ"):
        onnx_parity.export(program, inputs, verify=True, custom_translation_table=table)


def test_rounding_alone_is_not_refused() -> None:
    onnx_parity.export(torch.relu, (_X,), verify=True, custom_translation_table={"aten::relu": _is_rounded})
