"""Programs under autocast: what torch computes in halves is computed in halves, and dynamic sizes stay dynamic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import onnx_parity

Program = Callable[..., Any]

X = torch.rand(3, 4)
SEQUENCE = torch.rand(3, 5, 4)
IMAGE = torch.rand(2, 3, 6, 8)
LINEAR = nn.Linear(4, 4)
GRU = nn.GRU(4, 3, batch_first=True)
CONVOLUTION = nn.Conv2d(3, 4, 3)
ATTENTION = nn.MultiheadAttention(4, 2, batch_first=True).eval()
OF_SEQUENCES: dict[str, Program] = {
    "layers": lambda x: LINEAR(LINEAR(x).relu()) + x,
    "softmax": lambda x: LINEAR(x).softmax(-1),
    "norm": lambda x: F.layer_norm(LINEAR(x), (4,)),
    "cat": lambda x: torch.cat([LINEAR(x), x], 1),
    "attention": lambda x: ATTENTION(x, x, x, need_weights=False)[0],
    "scaled_dot_product": lambda x: F.scaled_dot_product_attention(x, x, x),
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x),
    "tensordot": lambda x: torch.tensordot(x, torch.ones(4, 3), 1),
    "one_operand": lambda x: torch.einsum("bij->ij", x),
    "elementwise": lambda x: torch.einsum("bij,bij->bij", x, x),
    "inner": lambda x: torch.inner(x.flatten(), x.flatten()),
    "inner_of_rows": lambda x: torch.inner(x, torch.ones(2, 4)),
    "multi_dot": lambda x: torch.linalg.multi_dot([x.flatten(1).T, x.flatten(1), torch.ones(x.shape[1] * 4, 2)]),
    "lstm": nn.LSTM(4, 3, batch_first=True),
    "projected_lstm": nn.LSTM(4, 3, 2, batch_first=True, proj_size=2),
    "gru": nn.GRU(4, 3, 2, batch_first=True, bidirectional=True),
    "gru_of_halves": lambda x: GRU(LINEAR(x)),
    "rnn": nn.RNN(4, 3, batch_first=True),
    "packed": lambda x: GRU(pack_padded_sequence(x, torch.full([x.shape[0]], 3), True))[1],
    "loss": lambda x: F.mse_loss(LINEAR(x), x),
    "covariance": lambda x: torch.cov(x.flatten(0, 1).T),
    "pooled": lambda x: F.max_pool1d(LINEAR(x), 2),
}
OF_IMAGES: dict[str, Program] = {
    "convolution": CONVOLUTION,
    "bilinear_resize": lambda x: F.interpolate(CONVOLUTION(x), scale_factor=2.0, mode="bilinear"),
    "nearest_resize": lambda x: F.interpolate(x, size=(x.shape[2] * 2, 5)),
    "affine_grid": lambda x: F.affine_grid(torch.eye(3)[:2].repeat(x.shape[0], 1, 1), list(x.shape), False),
}


def under_autocast(program: Program, dtype: torch.dtype) -> Program:
    def casting(*args: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype):
            return program(*args)

    return casting


@functools.cache
def has_lstm(dtype: torch.dtype) -> bool:
    """Whether oneDNN computes an LSTM in this dtype on this processor."""
    try:
        under_autocast(nn.LSTM(4, 3), dtype)(SEQUENCE)
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [*OF_SEQUENCES, *OF_IMAGES])
def test_dynamic_sizes(name: str, dtype: torch.dtype) -> None:
    if name == "lstm" and not has_lstm(dtype):
        pytest.skip("this processor computes no LSTM in this dtype")
    if name in OF_SEQUENCES:
        program, example, axes = OF_SEQUENCES[name], SEQUENCE, {0: "batch", 1: "length"}
    else:
        program, example, axes = OF_IMAGES[name], IMAGE, {0: "batch", 2: "height", 3: "width"}
    program = under_autocast(program, dtype)
    onnx_parity.export(program, (example,), input_names=["x"], dynamic_axes={"x": axes}, verify=True)


def test_layers_are_kept_whole() -> None:
    capture = onnx_parity.capture_program(under_autocast(lambda x: LINEAR(x).relu(), torch.bfloat16), (SEQUENCE,))
    assert set(capture.operators) == {"aten::_to_copy", "aten::linear", "aten::relu"}


def test_autocast_may_be_disabled_inside() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            narrow = LINEAR(x)
            with torch.autocast("cpu", enabled=False):
                return narrow, LINEAR(x)

    narrow, wide = onnx_parity.export(program, (SEQUENCE,), verify=True)(SEQUENCE)
    assert (narrow.dtype, wide.dtype) == (torch.bfloat16, torch.float32)


def test_under_autocast() -> None:
    model = nn.Linear(4, 2)

    def inside(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            result: torch.Tensor = model(x)
            return result

    assert onnx_parity.export(inside, (X,))(X).dtype is torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        model(X)
        program = onnx_parity.export(model, (X,))
        after = model(X)
    torch.testing.assert_close(program(X), after.detach(), rtol=2e-2, atol=2e-2)


def test_einsum_under_autocast() -> None:
    def products(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.einsum("ij,kj->ik", x, x)

    program = onnx_parity.export(products, (X,))
    assert program(X).dtype is torch.bfloat16
    torch.testing.assert_close(program(X), products(X), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(4, 5, 2, bidirectional=True),
        nn.LSTM(4, 5, proj_size=2),
        nn.GRU(4, 5),
        nn.RNN(4, 5),
        nn.MultiheadAttention(4, 2),
        nn.RMSNorm(4),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_under_autocast(layer: nn.Module) -> None:
    if isinstance(layer, nn.LSTM) and not layer.proj_size and not has_lstm(torch.bfloat16):
        pytest.skip("this processor computes no LSTM in this dtype")

    def program(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x, x, x) if isinstance(layer, nn.MultiheadAttention) else layer(x)

    x = torch.rand(3, 2, 4)
    exported = onnx_parity.export(program, (x,))
    with torch.no_grad():
        torch.testing.assert_close(exported(x), program(x), rtol=2e-2, atol=2e-2)
