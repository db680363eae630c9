"""Defects of operators of onnxruntime on the CPU, by the programs of their reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.real_defects.defect import defect
from benchmarks.real_defects.running import session

Program = Callable[[], tuple[object, object]]
f32 = partial(np.array, dtype=np.float32)
_ORT = "https://github.com/microsoft/onnxruntime"
#: For each release with a defect, one without, with as few other changes as there is.
_NEXT = {"1.18.1": "1.19.2"}


def _defect(broken: str, operator: str, report: str, place: str = "", names: str = "") -> Callable[[Program], Program]:
    return defect(
        "onnxruntime",
        broken,
        operator,
        report,
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
