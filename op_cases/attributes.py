"""Attributes, negative and empty axes that no other case gives, or that no other case would notice to be left out.

Each program runs twice, because what an operator is lowered to must not depend on what came before it in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from onnx_parity.harness.case import bools, floats, given, op
from onnx_parity.op_cases.function_sweeps import again

_SQUARE = given([[3.0, 1.0, 0.5], [-1.0, 4.0, 0.25], [0.5, 1.0, 5.0]])
_SYMMETRIC = given([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 5.0]])
#: Sizes of which one is in a tensor.
_SIZES: Any = (2, torch.tensor(3))
_ROWS = {"x": {0: "rows"}}
_FROM_NOTHING = {"rows": (0, 1, 5)}

# --- products and matrices --------------------------------------------------------------------------------------------

of_products = op(
    again(lambda x, y: (
        torch.cross(x[:, :3], y[:, :3], dim=-1), torch.cross(x, y, dim=-2), torch.linalg.vecdot(x, y, dim=-2),
        torch.linalg.norm(x, 1.5, dim=-2), torch.cumulative_trapezoid(x, dx=2.5), torch.cdist(x, y * 2),
        x.view_as(y),
        torch.trapz(x, dx=2.5), torch.baddbmm(torch.ones(3, 3), x[None], y.T[None], beta=0.5),
    )), floats(3, 4), floats(3, 4),
)  # fmt: skip
of_factors = op(
    again(lambda x: (
        torch.cholesky_inverse(torch.linalg.cholesky(x, upper=True), upper=True),
        torch.linalg.matrix_rank(x - 3 * torch.eye(3), hermitian=True, rtol=0.3),
        torch.linalg.matrix_rank(x, rtol=0.6), torch.linalg.tensorsolve(x.tril(), x[0], dims=(-2,)),
        torch.linalg.qr(x, mode="r")[1].abs(), torch.svd(x, compute_uv=False)[1],
    )), _SYMMETRIC, dtypes=[torch.float32],
)  # fmt: skip
of_solutions = op(
    again(lambda x, y: (
        torch.linalg.solve_triangular(x, y, upper=True),
        torch.linalg.solve_triangular(x, y.mT, upper=False, left=False, unitriangular=True),
    )), _SQUARE, floats(3, 2), dtypes=[torch.float32],
)  # fmt: skip


def _unpacked(x: Tensor) -> tuple[Tensor, ...]:
    factors, pivots = torch.linalg.lu_factor(x)
    _, lower, upper = torch.lu_unpack(factors, pivots, unpack_pivots=False)
    return lower, upper, torch.lu_unpack(factors, pivots, unpack_data=False)[0]


of_unpacked_factors = op(
    again(_unpacked),
    _SQUARE,
    dtypes=[torch.float32],
    without_nan="the order in which LAPACK computes decides what NaN reaches",
)

# --- reductions and differences ---------------------------------------------------------------------------------------

of_statistics = op(
    again(lambda x: (
        torch.quantile(x, 0.3, dim=-2), torch.nanquantile(x, 0.7, dim=-2), torch.std_mean(x, dim=-2),
        torch.histogramdd(x[:, :2], bins=[3, 2], weight=x[:, 2].abs())[0],
    )), floats(4, 3), dtypes=[torch.float32],
)  # fmt: skip
of_no_rows = op(
    again(lambda x: (torch.diff(x, dim=1), torch.std_mean(x, dim=0), torch.trapz(x, dim=0))),
    floats(3, 4),
    dynamic=_ROWS,
    sizes=_FROM_NOTHING,
    dtypes=[torch.float32],
)
of_sorting = op(
    again(lambda x: (
        torch.topk(x, 3, dim=1, sorted=False)[0].sort(1)[0], torch.unique(x.round(), sorted=True, dim=0),
        torch.unique_consecutive(x.round(), dim=-2), x.round().unique(dim=0), x.round().unique(dim=-1),
    )), floats(4, 5), dtypes=[torch.float32], without_nan="onnxruntime's Unique compares the bits of rows",
)  # fmt: skip

# --- layers -----------------------------------------------------------------------------------------------------------


def _of_bags(weight: Tensor) -> tuple[Tensor, ...]:
    places, offsets = torch.tensor([0, 2, 1, 3, 3]), torch.tensor([0, 2])
    return (
        F.embedding_bag(places, weight * 1, offsets, max_norm=0.5),
        F.embedding_bag(places, weight * 1, offsets, max_norm=0.5, norm_type=1.0, mode="sum"),
    )


of_bags = op(again(_of_bags), floats(4, 3), dtypes=[torch.float32])
of_averaged_attention = op(
    again(lambda x, weight: F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, weight[:, 0], None, None, False, 0.0, weight[:4], weight[:4, 1],
        training=False, average_attn_weights=False,
    )), floats(5, 2, 4), floats(12, 4), dtypes=[torch.float32],
)  # fmt: skip
of_causal_attention = op(
    again(lambda x, weight: F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, weight[:, 0], None, None, False, 0.0, weight[:4], weight[:4, 1], training=False,
        need_weights=False, is_causal=True, attn_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
    )), floats(5, 2, 4), floats(12, 4), dtypes=[torch.float32],
)  # fmt: skip


def _unpooled(x: Tensor) -> tuple[Tensor, ...]:
    line, plane = x[0, 0][None], x[0]
    maxima = F.max_pool1d(line, 3, stride=2, padding=1, return_indices=True)
    of_planes = F.max_pool2d(plane, 3, stride=2, padding=1, return_indices=True)
    return (
        F.max_unpool1d(*maxima, [3], [2], [1], [8]),
        F.max_unpool2d(*of_planes, [3, 3], [2, 2], [1, 1], [4, 7]),
        F.max_unpool1d(*F.max_pool1d(line, 3, padding=1, return_indices=True), [3], padding=[1]),
        F.max_unpool1d(*F.max_pool1d(line, 3, stride=2, return_indices=True), [3], [2]),
        F.max_unpool2d(*F.max_pool2d(plane, 3, padding=1, return_indices=True), [3, 3], padding=[1, 1]),
        F.max_unpool3d(*F.max_pool3d(x, 3, padding=1, return_indices=True), [3, 3, 3], padding=[1, 1, 1]),
    )


of_unpools = op(
    again(_unpooled), floats(1, 4, 4, 7), dtypes=[torch.float32], without_nan="MaxPool is not defined for NaN"
)
of_norms_of_pools = op(
    again(lambda x: F.lp_pool1d(x.abs(), 2.0, 3, stride=2, ceil_mode=True)),
    floats(2, 4, 8),
    dtypes=[torch.float32, torch.float64],
)
of_losses = op(
    again(lambda x, y: (
        F.elu(x, 0.7), torch.celu(x, 0.6), F.smooth_l1_loss(x, y, beta=0.3),
        torch.ops.aten.elu(x, 0.7, 1.5, 0.25),
    )), floats(3, 4), floats(3, 4), dtypes=[torch.float32],
)  # fmt: skip
# --- spectra ----------------------------------------------------------------------------------------------------------

of_spectra = op(
    again(lambda x: (
        torch.view_as_real(torch.stft(x, 8, 3, 6, torch.hann_window(6), pad_mode="replicate", return_complex=True)),
        torch.istft(
            torch.stft(x, 8, 2, 6, torch.hamming_window(6), normalized=True, return_complex=True),
            8, 2, 6, torch.hamming_window(6), normalized=True, length=29,
        ),
        torch.istft(
            torch.stft(x, 8, 4, center=False, onesided=False, return_complex=True, window=torch.ones(8)),
            8, 4, center=False, onesided=False, window=torch.ones(8),
        ),
    )), floats(2, 32), dtypes=[torch.float32],
    without_nan="a kernel of the Fourier transform may leave out what is surely 0, or multiply it by NaN",
)  # fmt: skip
of_spectra_of_windows = op(
    again(lambda x: torch.view_as_real(
        torch.stft(x, 8, 3, 6, torch.hann_window(6), center=False, return_complex=True, align_to_window=True)
    )), floats(2, 32), dtypes=[torch.float32],
    without_nan="a kernel of the Fourier transform may leave out what is surely 0, or multiply it by NaN",
)  # fmt: skip
# --- dtypes and shapes ------------------------------------------------------------------------------------------------

of_made_tensors = op(
    again(lambda x: (
        x.new_full((2, 3), 2.5, dtype=torch.float64), x.new_ones(3, dtype=torch.int32),
        x.new_zeros(2, dtype=torch.bool),
        torch.full((2,), 3, dtype=torch.int8), torch.linspace(0, 5, 6, dtype=torch.int64), x.to(dtype=torch.int16),
        torch.logspace(0, 3, 4, base=2.0), torch.logspace(0, 2, 3, dtype=torch.int32),
        torch.empty_like(x, dtype=torch.float64).shape[0] * x, torch.softmax(x, -1, dtype=torch.float64),
    )), floats(2, 3), dtypes=[torch.float32],
)  # fmt: skip
of_sequences = op(
    again(lambda x: torch.nn.utils.rnn.pad_sequence([x, x[:2], x[:1]], True, -1.5, "left")),
    floats(3, 2),
    dtypes=[torch.float32],
)
# --- what other cases tell in other dtypes only -----------------------------------------------------------------------

_ROW = given([[0.5, -1.25, 2.0, -0.75, 1.5], [-2.0, 0.25, -0.5, 3.0, -1.0], [1.25, 0.75, -3.0, 0.5, -0.25]])
_HALVES = (torch.float16, torch.bfloat16)


def _kept(norm: Callable[..., Tensor], x: Tensor) -> tuple[Tensor, ...]:
    """What a norm keeps of its inputs, and what it returns."""
    mean, variance = torch.zeros_like(x[0, :, 0]), torch.ones_like(x[0, :, 0])
    return norm(x, mean, variance, momentum=0.5), mean, variance


of_pools_and_parts_in_halves = op(
    again(lambda x: (
        F.avg_pool1d(x, 4, 3, ceil_mode=True), F.avg_pool2d(x[None], 3, 2, 1, count_include_pad=False),
        F.max_pool3d(x[None, None], (1, 2, 2), 2, ceil_mode=True, return_indices=True),
        *x.chunk(2, dim=-1), *x.chunk(2, dim=0), F.glu(x[:2, :4], dim=0), torch.rot90(x[None], 1, (-1, -2)),
        torch.baddbmm(x[None, :, :3], 2 * x[None, :, 1:4], x[None, :, 2:]),
    )), _ROW, dtypes=_HALVES, without_nan="MaxPool is not defined for NaN",
)  # fmt: skip
of_layers = op(
    again(lambda x: (
        F.cross_entropy(4 * x, torch.tensor([2, 3, 0]), label_smoothing=0.3), torch.nan_to_num(x.log(), nan=2.5),
        *_kept(partial(F.batch_norm, training=True), x[None]),
        torch.rnn_tanh_cell(x / 8, x[:, :2] / 8, x[:2] / 8, x[:2, :2], x[0, :2], x[1, :2]),
        F.grid_sample(x[None, None], torch.tensor([[[[0.3, -0.4], [-0.6, 0.9]]]]).to(x), "nearest", align_corners=True),
    )), _ROW, dtypes=(*_HALVES, torch.float64),
)  # fmt: skip
of_gelu_in_halves = op(again(lambda x: F.gelu(-3 - x.abs(), approximate="tanh")), _ROW, dtypes=_HALVES)
of_epsilons = op(
    again(lambda x: (
        F.pairwise_distance(x, x.flip(0), eps=0.5), F.pairwise_distance(x / 8, x.flip(0), eps=2.0),
        F.triplet_margin_loss(x, x, x.flip(1), margin=6.0, eps=0.5),
        F.poisson_nll_loss(x.abs(), x.flip(0).abs(), log_input=False, eps=0.5, reduction="sum"),
        F.gaussian_nll_loss(x, x.flip(0), x.abs(), eps=0.8), F.cosine_similarity(x / 8, x.flip(0), eps=2.0),
        F.cosine_embedding_loss(x, x + 0.25, torch.tensor([-1, -1, -1]), margin=0.3),
        torch.ops.aten._native_batch_norm_legit(
            x, None, None, torch.zeros_like(x[0]), torch.ones_like(x[0]), True, 0.1, 0.5
        )[0],
    )), _ROW, dtypes=(*_HALVES, torch.float64),
)  # fmt: skip
of_far_doubles = op(
    again(lambda x, y: (
        torch.isclose(x, x + 1e-12, rtol=0.0, atol=1e-13), torch.isin(x + 1e-12, x), torch.dist(x, y, 3.0),
        torch.logical_or(x * 1e-200, y * 0), (x * 1e-200).nonzero(), (x * 1e-200).sgn(),
        torch.unique_consecutive(torch.cat([x[0, :1], x[0, :1] + 1e-12, y[0]])),
        torch.addcmul(x, y, y), torch.addcdiv(x, y, y), x.abs() ** y, x - y, torch.zeros_like(x, dtype=torch.float32),
        F.interpolate(x[None], scale_factor=1.5, mode="linear", recompute_scale_factor=True),
    )), _ROW, floats(3, 5, low=0.5, high=3), dtypes=[torch.float64],
    without_nan="NaN times a weight of zero is NaN, and torch leaves such elements out",
)  # fmt: skip
_FAR = given([[2**32 + 1, 1, 300], [5, 2**32, -(2**33) - 3], [7, 2**31 + 5, 2**34 + 7]])
of_far_integers = op(
    again(lambda x: (
        x.to(torch.int8).to(torch.int64), x.bool(), torch.isclose(x, x + 3, rtol=0.0, atol=5.0),
        torch.isclose(x, 2 * x, rtol=2.0), torch.isclose(x, x % 2**32), F.log_softmax(x, 0, dtype=torch.float64),
        torch.index_reduce(x, 0, torch.tensor([0, 0, 2]), x % 5, "prod"),
        torch.scatter_reduce(x, 0, torch.tensor([[0, 0, 1]]), x, "sum"), torch.unravel_index(x.abs(), (2**20, 2**20)),
        F.max_pool2d(x[None], 2, 1, return_indices=True), torch.addmm(x, x % 4, x % 5),
        torch.addmv(x[0], x % 4, x[1] % 5), torch.addr(x, x[0] % 4, x[1] % 5), x[None].flatten(0, -2),
        x[None].flatten(1),
    )), _FAR, dtypes=[torch.int64],
)  # fmt: skip
of_distinct_integers = op(again(lambda x: torch.unique_consecutive(x.flatten())), _FAR, dtypes=[torch.int64])
of_bools = op(
    again(lambda x: (x.index_fill(-1, torch.tensor([2]), True), *x.max(0), *x.min(dim=1))),
    bools(3, 4),
    dtypes=[torch.bool],
)
of_calls_in_float32 = op(
    again(lambda x: (
        torch.baddbmm(x[None, :, :3], 2 * x[None, :, 1:4], x[None, :, 2:]), torch.cumprod(x, 0, dtype=torch.float64),
        (x[0].long() + 2**24 + 1).float().long(), *_kept(partial(F.instance_norm, use_input_stats=True), x[None]),
        F.one_hot(x[0].long() + 3, 9), torch.zeros(2, dtype=torch.float64),
        torch.linspace(x[0, 0], 5, 6, dtype=torch.float64), torch.full((2,), x[0, 0], dtype=torch.float64),
        torch.logspace(x[0, 0], 3, 4, base=2.0), torch.logspace(0, x[0, 2], 3, dtype=torch.float64),
        torch.ops.aten._safe_softmax(x, -1, dtype=torch.float64), torch.ops.aten.slice(x, -1, 1, 4),
        torch._dim_arange(x, -2), x.to("cpu", torch.float64),
        torch.zeros(_SIZES, dtype=torch.float64),
    )), _ROW, dtypes=[torch.float32],
)  # fmt: skip


def _squares(x: Tensor) -> tuple[Tensor, ...]:
    """Of the orthogonal columns of decompositions, which are whole bases."""
    of_svd, of_qr = torch.svd(x.mT, some=False)[0], torch.qr(x.mT, some=False)[0]
    return of_svd @ of_svd.mT, of_qr @ of_qr.mT


of_whole_bases = op(again(_squares), _ROW, dtypes=[torch.float32])
of_linear_cross_entropy = op(
    again(lambda x, weight: F.linear_cross_entropy(
        x, weight, torch.tensor([1, 3, 0, 1]), linear_bias=weight[:, 0], weight=weight[:, 1].abs(), ignore_index=3,
        label_smoothing=0.3,
    )), floats(4, 3), floats(5, 3), dtypes=[torch.float32],
)  # fmt: skip
of_attention_to_given_keys = op(
    again(lambda x, y, weight: F.multi_head_attention_forward(
        x, y, y, 4, 2, weight, weight[:, 0], None, None, False, 0.0, weight[:4], weight[:4, 1], training=False,
        static_k=x[:, :, :2].repeat(1, 2, 1).transpose(0, 1) * 2, static_v=y[:, :, 1:3].repeat(1, 2, 1).transpose(0, 1),
    )), floats(5, 2, 4), floats(5, 2, 4), floats(12, 4), dtypes=[torch.float32],
)  # fmt: skip
of_attention_in_halves = op(
    again(lambda x, y, weight: F.multi_head_attention_forward(
        x, y, y, 4, 2, weight, weight[:, 0], None, None, False, 0.0, weight[:4], weight[:4, 1], training=False
    )), floats(3, 1, 4), floats(3, 1, 4), floats(12, 4), dtypes=_HALVES,
)  # fmt: skip
of_fractions = op(
    again(lambda x: F.fractional_max_pool2d_with_indices(
        x[None], (2, 2), output_ratio=(0.7, 0.5), _random_samples=torch.tensor([[[0.3, 0.6]]])
    )), _ROW, dtypes=[torch.float32],
)  # fmt: skip
of_truncated_least_squares = op(
    again(lambda x, y: torch.linalg.lstsq(x, y, rcond=0.5, driver="gelsd").solution), _SYMMETRIC, _SQUARE,
    dtypes=[torch.float32],
)  # fmt: skip
