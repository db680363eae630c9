"""Attributes, negative and empty axes that no other case gives, or that no other case would notice to be left out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from onnx_parity.harness.case import floats, given, op

_SQUARE = given([[3.0, 1.0, 0.5], [-1.0, 4.0, 0.25], [0.5, 1.0, 5.0]])
_SYMMETRIC = given([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 5.0]])
_ROWS = {"x": {0: "rows"}}
_FROM_NOTHING = {"rows": (0, 1, 5)}

# --- products and matrices --------------------------------------------------------------------------------------------

of_products = op(
    lambda x, y: (
        torch.cross(x[:, :3], y[:, :3], dim=-1), torch.cross(x, y, dim=-2), torch.linalg.vecdot(x, y, dim=-2),
        torch.linalg.norm(x, 1.5, dim=-2), torch.cumulative_trapezoid(x, dx=2.5), torch.cdist(x, y * 2),
        torch.baddbmm(torch.ones(3, 3), x[None], y.T[None], beta=0.5),
    ), floats(3, 4), floats(3, 4),
)  # fmt: skip
of_factors = op(
    lambda x: (
        torch.cholesky_inverse(torch.linalg.cholesky(x, upper=True), upper=True),
        torch.linalg.matrix_rank(x - 3 * torch.eye(3), hermitian=True, rtol=0.3),
        torch.linalg.matrix_rank(x, rtol=0.6), torch.linalg.tensorsolve(x.reshape(3, 3), x[0], dims=(-2,)),
        torch.linalg.qr(x, mode="r")[1].abs(), torch.svd(x, compute_uv=False)[1],
    ), _SYMMETRIC, dtypes=[torch.float32],
)  # fmt: skip


def _unpacked(x: Tensor) -> tuple[Tensor, ...]:
    factors, pivots = torch.linalg.lu_factor(x)
    _, lower, upper = torch.lu_unpack(factors, pivots, unpack_pivots=False)
    return lower, upper, torch.lu_unpack(factors, pivots, unpack_data=False)[0]


of_unpacked_factors = op(
    _unpacked,
    _SQUARE,
    dtypes=[torch.float32],
    without_nan="the order in which LAPACK computes decides what NaN reaches",
)

# --- reductions and differences ---------------------------------------------------------------------------------------

of_statistics = op(
    lambda x: (
        torch.quantile(x, 0.3, dim=-2), torch.nanquantile(x, 0.7, dim=-2), torch.std_mean(x, dim=-2),
        torch.histogramdd(x[:, :2], bins=[3, 2], weight=x[:, 2].abs())[0],
    ), floats(4, 3), dtypes=[torch.float32],
)  # fmt: skip
of_no_rows = op(
    lambda x: (torch.diff(x, dim=1), torch.std_mean(x, dim=0), torch.trapz(x, dim=0)),
    floats(3, 4),
    dynamic=_ROWS,
    sizes=_FROM_NOTHING,
    dtypes=[torch.float32],
)
of_sorting = op(
    lambda x: (
        torch.topk(x, 3, dim=1, sorted=False)[0].sort(1)[0], torch.unique(x.round(), sorted=True, dim=0),
        torch.unique_consecutive(x.round(), dim=-2),
    ), floats(4, 5), dtypes=[torch.float32], without_nan="onnxruntime's Unique compares the bits of rows",
)  # fmt: skip

# --- layers -----------------------------------------------------------------------------------------------------------


def _of_bags(weight: Tensor) -> tuple[Tensor, ...]:
    places, offsets = torch.tensor([0, 2, 1, 3, 3]), torch.tensor([0, 2])
    return (
        F.embedding_bag(places, weight * 1, offsets, max_norm=0.5),
        F.embedding_bag(places, weight * 1, offsets, max_norm=0.5, norm_type=1.0, mode="sum"),
    )


of_bags = op(_of_bags, floats(4, 3), dtypes=[torch.float32])
of_averaged_attention = op(
    lambda x, weight: F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, weight[:, 0], None, None, False, 0.0, weight[:4], weight[:4, 1],
        training=False, average_attn_weights=False,
    ), floats(5, 2, 4), floats(12, 4), dtypes=[torch.float32],
)  # fmt: skip
of_causal_attention = op(
    lambda x, weight: F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, weight[:, 0], None, None, False, 0.0, weight[:4], weight[:4, 1], training=False,
        need_weights=False, is_causal=True, attn_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
    ), floats(5, 2, 4), floats(12, 4), dtypes=[torch.float32],
)  # fmt: skip


def _unpooled(x: Tensor) -> tuple[Tensor, ...]:
    line, plane = x[0, 0][None], x[0]
    maxima = F.max_pool1d(line, 3, stride=2, padding=1, return_indices=True)
    of_planes = F.max_pool2d(plane, 3, stride=2, padding=1, return_indices=True)
    return (
        F.max_unpool1d(*maxima, [3], [2], [1], [8]),
        F.max_unpool2d(*of_planes, [3, 3], [2, 2], [1, 1], [4, 7]),
        F.max_unpool1d(*F.max_pool1d(line, 3, padding=1, return_indices=True), [3], padding=[1]),
        F.max_unpool2d(*F.max_pool2d(plane, 3, padding=1, return_indices=True), [3, 3], padding=[1, 1]),
        F.max_unpool3d(*F.max_pool3d(x, 3, padding=1, return_indices=True), [3, 3, 3], padding=[1, 1, 1]),
    )


of_unpools = op(_unpooled, floats(1, 4, 4, 7), dtypes=[torch.float32], without_nan="MaxPool is not defined for NaN")
of_norms_of_pools = op(
    lambda x: F.lp_pool1d(x.abs(), 2.0, 3, stride=2, ceil_mode=True), floats(2, 4, 8), dtypes=[torch.float32]
)
of_losses = op(
    lambda x, y: (
        F.elu(x, 0.7), torch.celu(x, 0.6), F.smooth_l1_loss(x, y, beta=0.3),
        torch.ops.aten.elu(x, 0.7, 1.5, 0.25),
    ), floats(3, 4), floats(3, 4), dtypes=[torch.float32],
)  # fmt: skip
# --- spectra ----------------------------------------------------------------------------------------------------------

of_spectra = op(
    lambda x: (
        torch.view_as_real(torch.stft(x, 8, 3, 6, torch.hann_window(6), pad_mode="replicate", return_complex=True)),
        torch.istft(
            torch.stft(x, 8, 2, 6, torch.hamming_window(6), normalized=True, return_complex=True),
            8, 2, 6, torch.hamming_window(6), normalized=True, length=29,
        ),
        torch.istft(
            torch.stft(x, 8, 4, center=False, onesided=False, return_complex=True, window=torch.ones(8)),
            8, 4, center=False, onesided=False, window=torch.ones(8),
        ),
    ), floats(2, 32), dtypes=[torch.float32],
    without_nan="a kernel of the Fourier transform may leave out what is surely 0, or multiply it by NaN",
)  # fmt: skip
# --- dtypes and shapes ------------------------------------------------------------------------------------------------

of_made_tensors = op(
    lambda x: (
        x.new_full((2, 3), 2.5, dtype=torch.float64), x.new_ones(3, dtype=torch.int32),
        x.new_zeros(2, dtype=torch.bool),
        torch.full((2,), 3, dtype=torch.int8), torch.linspace(0, 5, 6, dtype=torch.int64), x.to(dtype=torch.int16),
        torch.logspace(0, 3, 4, base=2.0), torch.logspace(0, 2, 3, dtype=torch.int32),
        torch.empty_like(x, dtype=torch.float64).shape[0] * x, torch.softmax(x, -1, dtype=torch.float64),
    ), floats(2, 3), dtypes=[torch.float32],
)  # fmt: skip
of_sequences = op(
    lambda x: torch.nn.utils.rnn.pad_sequence([x, x[:2], x[:1]], True, -1.5, "left"),
    floats(3, 2),
    dtypes=[torch.float32],
)
