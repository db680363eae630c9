"""Programs with one value that float16 cannot hold at inputs of `scale`, and can hold at inputs of one.

The line that makes it ends with `# planted`. Most of them absorb it, so that no output is infinite in half.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Program = Callable[[Tensor], Tensor]


def share(x: Tensor) -> Tensor:
    y = x.abs()
    total = y.sum()  # planted
    return y / total


def saturated(x: Tensor) -> Tensor:
    y = x * 300  # planted
    return torch.tanh(y)


def gated(x: Tensor) -> Tensor:
    y = x * x  # planted
    return x * torch.sigmoid(-y)


def softmax(x: Tensor) -> Tensor:
    scores = x @ x.mT  # planted
    return torch.softmax(scores, -1)


def attention(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x)  # planted


def norm(x: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)  # planted
    return x / length


def normalized(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)  # planted


def root_mean_square(x: Tensor) -> Tensor:
    squares = x.pow(2)  # planted
    return x * torch.rsqrt(squares.mean(-1, keepdim=True) + 1e-3)


def standardised(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)  # planted
    return centred / (variance + 1e-3).sqrt()


def layer_norm(x: Tensor) -> Tensor:
    y = x * 400  # planted
    return F.layer_norm(y, (8,))


def group_norm(x: Tensor) -> Tensor:
    y = x * 400  # planted
    return F.group_norm(y, 2)


def clipped(x: Tensor) -> Tensor:
    y = x.abs() * 500  # planted
    return y.clamp(max=6.0)


def reciprocal(x: Tensor) -> Tensor:
    y = x.square()  # planted
    return torch.reciprocal(1 + y)


def decay(x: Tensor) -> Tensor:
    y = x.square()  # planted
    return torch.exp(-y)


def arc(x: Tensor) -> Tensor:
    y = x.pow(3)  # planted
    return torch.atan(y)


def sign(x: Tensor) -> Tensor:
    y = x * 1000  # planted
    return torch.sign(y) + x


def compared(x: Tensor) -> Tensor:
    y = x.cumsum(-1) * 400  # planted
    return torch.where(y > 0, x, -x)


def logarithm(x: Tensor) -> Tensor:
    y = x.abs().prod(-1)  # planted
    return torch.log(y + 1)


def scaled_back(x: Tensor) -> Tensor:
    y = x @ x.mT  # planted
    return y / 1024


def linear(x: Tensor) -> Tensor:
    y = F.linear(x, torch.full((8, 8), 200.0))  # planted
    return F.hardsigmoid(y)


PLANTED = (
    share, saturated, gated, softmax, attention, norm, normalized, root_mean_square, standardised, layer_norm,
    group_norm, clipped, reciprocal, decay, arc, sign, compared, logarithm, scaled_back, linear,
)  # fmt: skip
