"""Second calls of operators that no other program calls more than once, with other arguments than the first ones.

What an operator is lowered to must not depend on what came before it in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import floats, given, ints, op

_aten = torch.ops.aten
_WHOLE = given([[7, -3, 12, 5], [1, 0, -6, 2], [9, 4, -1, 3]])

# --- elements ---------------------------------------------------------------------------------------------------------

second_of_numbers = op(
    lambda x: (
        torch.remainder(5.5, x), torch.remainder(-7, x + 0.25), x.fmod(0.75), x.T.fmod(-0.4), torch.copysign(x, -1.0),
        torch.copysign(x.T, 2.0), torch.clamp_max(x, 0.5), torch.clamp_max(x.T, -0.25),
        x.masked_fill(x > 0, x.sum()), x.T.masked_fill(x.T < 0, x[0, 0]),
        torch.scatter(x, 0, (x > 0).long(), -2.0), torch.scatter(x, 1, (x > 0).long(), 3.0),
        torch.special.zeta(x.abs() + 1.5, 2.0), torch.special.zeta(x.T.abs() + 2.5, 3.0),
        torch.special.zeta(2.5, x.abs() + 1), torch.special.zeta(3.5, x.T.abs() + 2),
        torch.bucketize(x[0, 0].item(), torch.tensor([-1.0, 0.0, 1.0])),
        torch.bucketize(x[1, 2].item(), torch.tensor([-0.5, 0.5]), right=True),
    ), floats(3, 4), dtypes=[torch.float32], without_nan="a number that is read from a tensor is compared as it is",
)  # fmt: skip
second_of_bits = op(
    lambda x, far: (
        x | 3, x.T | 8, x ^ 5, x.T ^ -1, torch.bitwise_left_shift(x, 2), torch.bitwise_left_shift(x.T, 3),
        torch.bitwise_left_shift(3, x.abs()), torch.bitwise_left_shift(5, x.T.abs() + 1),
        torch.bitwise_right_shift(1000, x.abs()), torch.bitwise_right_shift(-77, x.T.abs()), x << 1, x.T << 4,
        x >> x.abs(), x.T >> (x.T.abs() + 1), x.all((0, 1)), (x != 0).all((0, 1), keepdim=True),
        (x.T > -6).all((0,)), x.view(torch.int32), far.T.contiguous().view(torch.int16),
        torch.nonzero_static(far, size=5), torch.nonzero_static(x.T > 3, size=9, fill_value=-4),
    ), _WHOLE, given([[2**32, 1], [0, 2**33 + 5]]), dtypes=[torch.int64],
)  # fmt: skip

# --- products and matrices --------------------------------------------------------------------------------------------

second_of_matrices = op(
    lambda x, y: (
        torch.cholesky_inverse(x.tril()), torch.cholesky_inverse(2 * x.triu(), upper=True),
        torch.cholesky_solve(y, x.tril()), torch.cholesky_solve(3 * y, x.triu(), upper=True),
        torch.pdist(x), torch.pdist(y, p=1.0), torch.conv_tbc(y[:, :, None], x[:2, :1, None].expand(2, 1, 2), x[0, :2]),
        torch.conv_tbc(x[:, :, None], y[:1, :1, None].expand(1, 1, 3), x[1], 1),
    ), given([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 5.0]]), floats(3, 2), dtypes=[torch.float32],
    without_nan="torch and this model take other ways to a NaN through the solutions",
)  # fmt: skip
second_of_integer_products = op(
    lambda x, y: (
        torch._int_mm(x.to(torch.int8), y.to(torch.int8)), torch._int_mm(y.T.to(torch.int8), x.T.to(torch.int8)),
    ), ints(17, 8, low=-100, high=100), ints(8, 24, low=-100, high=100), dtypes=[torch.float32],
)  # fmt: skip

# --- what is made -----------------------------------------------------------------------------------------------------

second_of_made = op(
    lambda x: (
        torch.linspace(0, 5, 6), torch.linspace(2, -1, 4, dtype=torch.float64), torch.linspace(1, x[0, 0], 5),
        torch.linspace(-2, x[1, 1], 4), torch.arange(2, 7), torch.arange(-3, 4, dtype=torch.float32),
        torch.tril_indices(3, 4), torch.tril_indices(4, 3, -1), torch.triu_indices(3, 4), torch.triu_indices(4, 3, 1),
        torch.hann_window(6), torch.hann_window(7, periodic=False), torch.hamming_window(6),
        torch.hamming_window(5, periodic=False), torch.blackman_window(6), torch.blackman_window(7, False),
        torch.bartlett_window(6), torch.bartlett_window(7, False), torch.kaiser_window(6, True, 8.0),
        torch.kaiser_window(7, False, 12.0), x.new_empty(2, 3).fill_(1.5), x.new_empty(4).fill_(-2.0),
    ), floats(3, 4), dtypes=[torch.float32],
)  # fmt: skip

# --- layers -----------------------------------------------------------------------------------------------------------

second_of_layers = op(
    lambda x: (
        F.pad(x[None], (1, 2, 0, 1, 1, 0), mode="reflect"), F.pad(x[None, :1] * 2, (0, 1, 1, 1, 1, 1), mode="reflect"),
        F.pad(x[None], (2, 1, 1, 0, 0, 1), mode="replicate"), F.pad(x[None, :1], (0, 3, 1, 1, 2, 1), mode="replicate"),
        F.interpolate(x, (5, 3), mode="nearest-exact"), F.interpolate(x[:1], scale_factor=1.5, mode="nearest-exact"),
        F.interpolate(x[None], (3, 2, 5), mode="nearest-exact"),
        F.interpolate(x[None], (1, 5, 3), mode="nearest-exact"),
        F.interpolate(x, (2, 3), mode="bicubic", antialias=True),
        F.interpolate(x[:1], (3, 2), mode="bicubic", antialias=True, align_corners=True),
        F.embedding_bag(torch.tensor([[1, 0], [2, 2]]), x[0, 0]),
        F.embedding_bag(torch.tensor([0, 1, 2]), x[1, 1], torch.tensor([0, 1]), mode="max"),
        _aten._native_batch_norm_legit_no_training(x, None, None, x[0, :, 0, 0], x[1, :, 0, 0].abs() + 1, 0.1, 0.5)[0],
        _aten._native_batch_norm_legit_no_training(
            2 * x, x[1, :, 0, 0], x[0, :, 1, 1], x[1, :, 0, 0], x[0, :, 0, 0].abs() + 2, 0.1, 0.25
        )[0],
    ), floats(2, 2, 3, 4), dtypes=[torch.float32],
    without_nan="the kernels of antialiased resizing and of maxima treat NaN in their own ways",
)  # fmt: skip


class Recurrent(nn.Module):
    """Two layers of each kind, for whole and for packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        kinds: tuple[Callable[..., Any], ...] = (
            nn.LSTM, nn.GRU, nn.RNN, lambda *sizes, **given: nn.RNN(*sizes, nonlinearity="relu", **given)
        )  # fmt: skip
        self.first = nn.ModuleList(kind(3, 4) for kind in kinds)
        self.second = nn.ModuleList(kind(3, 2, bidirectional=True) for kind in kinds)

    def forward(self, x: Tensor) -> list[Tensor]:
        pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
        found = []
        for one, other in zip(self.first, self.second, strict=True):
            found += [one(x)[0], other(x.flip(0))[0]]
            found.append(unpack(one(pack(x, torch.tensor([5, 3])))[0])[0])
            found.append(unpack(other(pack(x.flip(2), torch.tensor([4, 1])))[0], batch_first=True, padding_value=-1)[0])
        return found


second_of_recurrent_layers = op(
    Recurrent,
    floats(5, 2, 3),
    dtypes=[torch.float32],
    without_nan="onnxruntime's recurrent kernels limit NaN to a number",
)

# --- quantization -----------------------------------------------------------------------------------------------------


def _quantized(x: Tensor) -> tuple[Tensor, ...]:
    scale, zero = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
    scales, zeros = torch.tensor([0.1, 0.05, 0.2]), torch.tensor([0, 2, -1], dtype=torch.int32)
    learnable, learnable_of_channels = (
        _aten._fake_quantize_learnable_per_tensor_affine, _aten._fake_quantize_learnable_per_channel_affine
    )  # fmt: skip
    return (
        torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255),
        torch.fake_quantize_per_tensor_affine(x.T, 3 * scale, zero - 4, -128, 127),
        learnable(x, scale, zero.float(), 0, 255), learnable(x.T, 2 * scale, zero - 5.0, -8, 7),
        learnable_of_channels(x, scales, zeros.float(), 0, 0, 255),
        learnable_of_channels(x.T, 2 * scales, zeros + 1.0, 1, -8, 7),
    )  # fmt: skip


second_of_quantization = op(
    _quantized, floats(3, 4), dtypes=[torch.float32], without_nan="an integer cannot be NaN"
)  # fmt: skip
