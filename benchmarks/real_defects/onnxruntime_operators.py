"""Defects of operators of onnxruntime on the CPU, by the programs of their reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.real_defects.defect import defect
from benchmarks.real_defects.running import i64, session

Program = Callable[[], tuple[object, object]]
f32 = partial(np.array, dtype=np.float32)
_ORT = "https://github.com/microsoft/onnxruntime"
#: For each release with a defect, one without, with as few other changes as there is.
_NEXT = {"1.18.1": "1.19.2", "1.19.2": "1.20.1", "1.20.1": "1.22.0", "1.23.0": "1.24.1"}


def _defect(broken: str, operator: str, report: str, place: str = "", names: str = "") -> Callable[[Program], Program]:
    return defect(
        "onnxruntime",
        broken,
        operator,
        report,
        mended=_NEXT.get(broken),
        culprit="onnxruntime",
        places=f"op_cases/{place}" if place else "",
        names=names,
    )


@_defect("1.22.0", "AveragePool", "https://github.com/pytorch/pytorch/issues/183528", "pooling", "avg_pool")
def average_pool_whose_last_windows_leave_the_padding() -> tuple[object, object]:
    """AveragePool(11) divides the last windows of ceil_mode by cells that are beyond the padding."""
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    got = session("AveragePool", x, opset=18, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
                  count_include_pad=1)  # fmt: skip
    return got, [f32([[[[14 / 9, 10 / 3, 2], [19 / 3, 11, 6], [4.5, 7.5, 4]]]])]


@_defect("1.22.0", "AveragePool", f"{_ORT}/issues/26708", "pooling", "avg_pool")
def average_pool_padded_at_the_end() -> tuple[object, object]:
    """AveragePool(19) leaves out the padding at the end of the first axis."""
    got = session("AveragePool", np.ones((1, 1, 2, 2), np.float32), opset=21, kernel_shape=[2, 2], strides=[1, 1],
                  pads=[0, 0, 1, 1], count_include_pad=1)  # fmt: skip
    return got, [f32([[[[1, 0.5], [0.5, 0.25]]]])]


@_defect("1.22.0", "Einsum", f"{_ORT}/issues/18654", "linear_algebra", "einsum")
def einsum_of_one_operand() -> tuple[object, object]:
    """Einsum of one operand that sums an axis before the last is refused or wrong."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    return session("Einsum", x, opset=17, equation="ijk->ki"), [x.sum(1).T]


@_defect("1.22.0", "LayerNormalization", f"{_ORT}/issues/21935", "normalization", "layer_norm")
def layer_norm_of_large_equal_numbers() -> tuple[object, object]:
    """LayerNormalization of large equal numbers is NaN."""
    ones, x = np.ones(256, np.float32), np.full((1, 256), 1234, np.float32)
    got = session("LayerNormalization", x, ones, ones * 0, opset=17, axis=-1, epsilon=1e-5)
    return got, [np.zeros((1, 256), np.float32)]


@_defect("1.20.1", "MaxPool", f"{_ORT}/issues/15446", "pooling", "max_pool3d")
def max_pool_whose_last_windows_begin_in_the_padding() -> tuple[object, object]:
    """MaxPool with ceil_mode has a window that begins in the padding."""
    x = np.arange(180, dtype=np.float32).reshape(1, 2, 3, 6, 5)
    got = session("MaxPool", x, opset=14, kernel_shape=[3, 3, 3], strides=[3, 3, 3], pads=[1] * 6, ceil_mode=1)
    half = f32([[36, 39, 51, 54, 56, 59], [66, 69, 81, 84, 86, 89]])
    return got, [np.stack([half, half + 90]).reshape(1, 2, 2, 3, 2)]


@_defect("1.18.1", "Min", f"{_ORT}/issues/21455", "comparison", "minimum clamp")
def minimum_of_nan_and_one_number() -> tuple[object, object]:
    """Min returns the second of two numbers if that is one number and the first is NaN."""
    return session("Min", f32([[np.nan], [3], [20]]), f32([10]), opset=17), [f32([[np.nan], [3], [10]])]


@_defect("1.23.0", "Attention", f"{_ORT}/pull/26057", "attention", "attention_grouped")
def grouped_queries_of_onnxruntime() -> tuple[object, object]:
    """Attention gives each query of a group the key of another one."""
    query, key = np.ones((1, 4, 1, 2), np.float32), np.ones((1, 2, 1, 2), np.float32)
    value = f32([[[[1, 1]], [[2, 2]]]])
    return session("Attention", query, key, value, opset=23), [f32([[[[1, 1]], [[1, 1]], [[2, 2]], [[2, 2]]]])]


@_defect("1.24.1", "Attention", f"{_ORT}/pull/28379", "attention", "attention")
def capped_and_masked_attention_of_onnxruntime() -> tuple[object, object]:
    """Attention applies softcap to what is masked, so that a masked key is seen."""
    query, value = np.ones((1, 1, 1, 2), np.float32), f32([[[[1, 1], [9, 9]]]])
    got = session("Attention", query, np.ones((1, 1, 2, 2), np.float32), value, f32([[0, -np.inf]]), opset=23,
                  softcap=2.0)  # fmt: skip
    return got, [f32([[[[1, 1]]]])]


@_defect("1.24.1", "Attention", f"{_ORT}/issues/28904", "attention", "attention")
def attention_of_a_row_that_sees_nothing() -> tuple[object, object]:
    """Attention of a query whose keys are all masked is the mean of the values."""
    ones, value = np.ones((1, 1, 2, 2), np.float32), f32([[[[1, 1], [9, 9]]]])
    got = session("Attention", ones, ones, value, np.array([[True, True], [False, False]]), opset=23)
    return got, [f32([[[[5, 5], [0, 0]]]])]


@_defect("1.24.1", "ReverseSequence", f"{_ORT}/issues/28490")
def a_sequence_of_no_steps_is_lost() -> tuple[object, object]:
    """ReverseSequence returns zeros for a sequence whose length is 0."""
    x = f32([[10, 20, 30], [11, 21, 31], [12, 22, 32], [13, 23, 33], [14, 24, 34]])
    got = session("ReverseSequence", x, i64(4, 0, 2), opset=18, time_axis=0, batch_axis=1)
    return got, [f32([[13, 20, 31], [12, 21, 30], [11, 22, 32], [10, 23, 33], [14, 24, 34]])]


@_defect("1.24.1", "Erf", f"{_ORT}/issues/28462", "elementwise", "erf elementwise_at_edges")
def erf_of_nan() -> tuple[object, object]:
    """Erf of NaN is 1."""
    got = session("Erf", f32([np.nan, np.nan, 0.5, -0.5, np.nan]), opset=18)
    return got, [f32([np.nan, np.nan, 0.5204999, -0.5204999, np.nan])]


@_defect("1.24.1", "GridSample", f"{_ORT}/pull/28302", "resize", "grid_sample")
def a_grid_far_outside() -> tuple[object, object]:
    """GridSample with reflections reads beyond the image for large coordinates."""
    image, grid = np.full((1, 1, 4, 4), 5, np.float32), np.full((1, 1, 1, 2), 1e10, np.float32)
    got = session("GridSample", image, grid, opset=20, mode="nearest", padding_mode="reflection")
    return got, [f32([[[[5]]]])]


@_defect("1.23.0", "ReduceSumSquare", f"{_ORT}/issues/26288")
def squares_of_no_axes() -> tuple[object, object]:
    """ReduceSumSquare without axes and with noop_with_empty_axes does not square."""
    got = session("ReduceSumSquare", f32([[1, -2], [3, 4]]), i64(), opset=18, noop_with_empty_axes=1)
    return got, [f32([[1, 4], [9, 16]])]


@_defect("1.23.0", "ReduceSum", f"{_ORT}/issues/19147")
def a_sum_whose_axes_are_left_out() -> tuple[object, object]:
    """ReduceSum with noop_with_empty_axes is refused if its axes are left out."""
    return session("ReduceSum", f32([[1, -2], [3, 4]]), opset=13, noop_with_empty_axes=1), [f32([[1, -2], [3, 4]])]


@_defect("1.23.0", "LayerNormalization", f"{_ORT}/issues/18184", "normalization", "layer_norm")
def layer_norm_whose_scale_is_broadcast() -> tuple[object, object]:
    """LayerNormalization takes no scale of other sizes than what it normalizes."""
    x, two = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2), f32([[[[1]], [[2]]]])
    got = session("LayerNormalization", x, two, two - 1, opset=17, axis=1)
    return got, [(x - 3.5) / np.sqrt(np.float32(5.25 + 1e-5)) * two + two - 1]


@_defect("1.23.0", "LayerNormalization", f"{_ORT}/issues/25896", "normalization", "layer_norm")
def layer_norm_of_one_number() -> tuple[object, object]:
    """LayerNormalization of one number is refused."""
    return session("LayerNormalization", f32([[3], [4]]), f32([2]), f32([1]), opset=17), [f32([[1], [1]])]


@_defect("1.23.0", "RMSNormalization", f"{_ORT}/issues/26432", "normalization", "rms_norm")
def rms_norm_whose_scale_is_a_scalar() -> tuple[object, object]:
    """RMSNormalization takes no scalar as its scale."""
    got = session("RMSNormalization", np.ones((2, 5, 3), np.float32), f32(2), opset=23, axis=2)
    return got, [np.full((2, 5, 3), 2, np.float32)]


@_defect("1.23.0", "Attention", f"{_ORT}/issues/26262", "attention", "attention")
def attention_that_returns_its_keys_without_a_past() -> tuple[object, object]:
    """Attention without a past refuses to return the present keys and values."""
    ones = np.ones((1, 1, 2, 2), np.float32)
    got = session("Attention", ones, ones, ones, opset=23, is_causal=1, outputs=3)
    return got, [ones, ones, ones]


@_defect("1.20.1", "ReduceMax", f"{_ORT}/issues/3687", "reduction", "amax_of_bools amax_dynamic")
def the_largest_of_an_empty_axis() -> tuple[object, object]:
    """ReduceMax of an empty axis is refused."""
    got = session("ReduceMax", np.zeros((0, 4), np.float32), i64(0), opset=18, keepdims=0)
    return got, [np.full(4, -np.inf, np.float32)]


@_defect("1.19.2", "Gemm", f"{_ORT}/pull/22111", "linear_algebra", "linear addmm")
def a_product_of_no_columns() -> tuple[object, object]:
    """Gemm of matrices whose inner size is 0 is refused."""
    got = session("Gemm", np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32), f32([1, 2, 3]), opset=13)
    return got, [f32([[1, 2, 3], [1, 2, 3]])]


@_defect("1.18.1", "Trilu", f"{_ORT}/issues/9494", "dynamic_sizes", "triangle")
def a_triangle_of_booleans() -> tuple[object, object]:
    """Trilu of booleans is refused."""
    return session("Trilu", np.ones((2, 2), np.bool_), opset=14), [np.array([[True, True], [False, True]])]
