"""Defects of onnx.reference, by the programs of their reports or the tests of their fixes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import ml_dtypes
import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

from benchmarks.real_defects.defect import defect
from benchmarks.real_defects.running import i64, reference

Program = Callable[[], tuple[object, object]]
f32 = partial(np.array, dtype=np.float32)
#: For each release with a defect, the next one here.
_NEXT = {"1.13.1": "1.14.1", "1.14.1": "1.15.0", "1.15.0": "1.16.2", "1.16.2": "1.17.0", "1.17.0": "1.18.0",
         "1.18.0": "1.19.1", "1.19.1": "1.20.1", "1.20.1": "1.21.0", "1.21.0": "1.22.0"}  # fmt: skip


def _defect(broken: str, operator: str, number: int, *, issue: bool = False) -> Callable[[Program], Program]:
    report = f"https://github.com/onnx/onnx/{'issues' if issue else 'pull'}/{number}"
    return defect("onnx", broken, operator, report, mended=_NEXT.get(broken), culprit="onnx.reference")


@_defect("1.22.0", "ReverseSequence", 8304)
def a_sequence_of_no_steps_is_reversed() -> tuple[object, object]:
    """ReverseSequence reverses all of a sequence whose length is 0."""
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    got = reference("ReverseSequence", x, i64(0, 2), opset=10, time_axis=0, batch_axis=1)
    return got, [f32([[0, 3], [2, 1], [4, 5]])]


@_defect("1.22.0", "ReduceMax", 8312)
def the_largest_of_no_booleans() -> tuple[object, object]:
    """ReduceMax of an empty axis of booleans is no boolean."""
    got = reference("ReduceMax", np.zeros((2, 0), np.bool_), i64(1), opset=20, keepdims=0)
    return got, [np.zeros(2, np.bool_)]


@_defect("1.22.0", "Gather", 8306)
def gather_of_no_indices() -> tuple[object, object]:
    """Gather with empty indices has a result of rank 1."""
    got = reference("Gather", np.ones((3, 4), np.float32), np.zeros((0, 2), np.int64), opset=13)
    return got, [np.zeros((0, 2, 4), np.float32)]


@_defect("1.22.0", "NonZero", 8296)
def nonzero_of_a_scalar() -> tuple[object, object]:
    """NonZero of a scalar is refused."""
    return reference("NonZero", np.array(3.0, np.float32), opset=13), [np.zeros((0, 1), np.int64)]


@_defect("1.22.0", "GatherElements", 8298)
def gather_elements_of_no_indices() -> tuple[object, object]:
    """GatherElements with empty indices has a result of rank 1."""
    got = reference("GatherElements", np.ones((2, 3), np.float32), np.zeros((2, 0), np.int64), opset=13, axis=1)
    return got, [np.zeros((2, 0), np.float32)]


@_defect("1.22.0", "ScatterND", 8099)
def scatter_nd_of_the_larger_elements() -> tuple[object, object]:
    """ScatterND with reduction="max" reads rows where the indices name elements."""
    x = np.zeros((2, 2), np.float32)
    got = reference("ScatterND", x, np.array([[0, 1], [1, 0]]), f32([3, 4]), opset=18, reduction="max")
    return got, [f32([[0, 3], [4, 0]])]


@_defect("1.22.0", "Attention", 8068)
def causal_attention_of_a_row_that_may_see_nothing() -> tuple[object, object]:
    """Attention of a query whose keys are all masked is NaN."""
    one = np.ones((1, 1, 2, 2), np.float32)
    mask = np.array([[False, False], [True, True]])
    return reference("Attention", one, one, one, mask, opset=23), [f32([[[[0, 0], [1, 1]]]])]


@_defect("1.22.0", "OneHot", 8113)
def one_hot_of_a_place_beyond_the_depth() -> tuple[object, object]:
    """OneHot counts an index beyond the depth from the start again."""
    got = reference("OneHot", i64(0, 3, -4), np.array(3), f32([0, 1]), opset=11)
    return got, [f32([[1, 0, 0], [0, 0, 0], [0, 0, 0]])]


@_defect("1.22.0", "TopK", 8194)
def top_k_that_need_not_be_sorted() -> tuple[object, object]:
    """TopK with sorted=0 is refused."""
    got = reference("TopK", f32([3, 1, 2]), i64(1), opset=11, outputs=2, sorted=0)
    return got, [f32([3]), i64(0)]


@_defect("1.22.0", "QuantizeLinear", 8230)
def quantized_negative_zero() -> tuple[object, object]:
    """QuantizeLinear to float4e2m1 loses the sign of zero."""
    got = reference("QuantizeLinear", f32([-0.0, 1.0]), f32(1.0), opset=23, output_dtype=23)
    expected = np.array([-0.0, 1.0], ml_dtypes.float4_e2m1fn)
    return [np.signbit(np.asarray(got[0]).astype(np.float32))], [np.signbit(expected.astype(np.float32))]


@_defect("1.22.0", "ScatterElements", 8299)
def scatter_elements_of_five_axes() -> tuple[object, object]:
    """ScatterElements of five axes is refused."""
    x = np.zeros((1, 1, 1, 1, 3), np.float32)
    got = reference("ScatterElements", x, i64(2).reshape(1, 1, 1, 1, 1), f32([7]).reshape(1, 1, 1, 1, 1), opset=18,
                    axis=4)  # fmt: skip
    return got, [f32([0, 0, 7]).reshape(1, 1, 1, 1, 3)]


@_defect("1.21.0", "Scan", 7964)
def scan_with_a_value_from_outside() -> tuple[object, object]:
    """The body of a Scan cannot read a value of the graph around it."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        main (float[3, 2] x, float[2] outer) => (float[3, 2] y) {
          y = Scan <num_scan_inputs = 1, body = step (float[2] row) => (float[2] sum) { sum = Add (row, outer) }> (x)
        }
    """)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    return ReferenceEvaluator(model).run(None, {"x": x, "outer": f32([10, 20])}), [x + f32([10, 20])]


@_defect("1.21.0", "QLinearMatMul", 7868)
def quantized_product_that_saturates() -> tuple[object, object]:
    """QLinearMatMul wraps what is beyond the range of its result."""
    many, scale, zero = np.full((1, 4), 200, np.uint8), f32(1.0), np.uint8(0)
    got = reference("QLinearMatMul", many, scale, np.array(zero), many.T.copy(), scale, np.array(zero), scale,
                    np.array(zero), opset=10)  # fmt: skip
    return got, [np.array([[255]], np.uint8)]


@_defect("1.21.0", "ScatterElements", 7842)
def scatter_elements_that_multiplies() -> tuple[object, object]:
    """ScatterElements with reduction="mul" is refused."""
    got = reference("ScatterElements", f32([1, 2, 3]), i64(1, 1), f32([4, 5]), opset=18, reduction="mul")
    return got, [f32([1, 40, 3])]


@_defect("1.21.0", "Attention", 7867)
def attention_caps_before_its_mask() -> tuple[object, object]:
    """Attention applies softcap to what is masked, so that a masked key is seen."""
    query, value = np.ones((1, 1, 1, 2), np.float32), f32([[[[1, 1], [9, 9]]]])
    mask = f32([[0, -np.inf]])
    got = reference("Attention", query, np.ones((1, 1, 2, 2), np.float32), value, mask, opset=23, softcap=2.0)
    return got, [f32([[[[1, 1]]]])]


@_defect("1.20.1", "Div", 7585)
def division_of_negative_integers() -> tuple[object, object]:
    """Div of integers rounds down, and not towards zero."""
    return reference("Div", np.array([-7, 7]), np.array([2, -2]), opset=14), [i64(-3, -3)]


@_defect("1.20.1", "CenterCropPad", 7522)
def crop_to_a_size_that_equals_the_axis() -> tuple[object, object]:
    """CenterCropPad leaves an axis whose new size is the number of the axis."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    return reference("CenterCropPad", x, i64(2, 1), opset=18), [f32([[1], [4]])]


@_defect("1.19.1", "ReduceL1", 7394)
def magnitudes_of_no_axes() -> tuple[object, object]:
    """ReduceL1 without axes and with noop_with_empty_axes keeps the signs."""
    got = reference("ReduceL1", f32([-1, 2]), opset=18, noop_with_empty_axes=1)
    return got, [f32([1, 2])]


@_defect("1.18.0", "Attention", 7297)
def causal_attention_with_a_past() -> tuple[object, object]:
    """The causal mask of Attention forgets that the keys of the past come first."""
    one = np.ones((1, 1, 1, 2), np.float32)
    got = reference("Attention", one, one, one * 3, None, one, one, opset=23, outputs=3, is_causal=1)
    return got[0], f32([[[[2, 2]]]])


@_defect("1.19.1", "ConvInteger", 7165)
def integer_convolution_with_a_zero_point_of_each_channel() -> tuple[object, object]:
    """ConvInteger takes no zero points of channels."""
    got = reference("ConvInteger", np.full((1, 1, 1, 2), 3, np.uint8), np.ones((2, 1, 1, 1), np.uint8),
                    np.array(1, np.uint8), np.array([0, 1], np.uint8), opset=10)  # fmt: skip
    return got, [np.array([[[[2, 2]], [[0, 0]]]], np.int32)]


@_defect("1.19.1", "Div", 7203)
def division_of_large_integers() -> tuple[object, object]:
    """Div of integers is computed in float64."""
    return reference("Div", i64(2**62 + 1), i64(1), opset=14), [i64(2**62 + 1)]


@_defect("1.19.1", "Softmax", 7206)
def softmax_of_nothing() -> tuple[object, object]:
    """Softmax of an empty tensor is refused."""
    return reference("Softmax", np.zeros((0, 2), np.float32), opset=13, axis=0), [np.zeros((0, 2), np.float32)]


@_defect("1.18.0", "Attention", 7274)
def attention_of_grouped_queries() -> tuple[object, object]:
    """Attention gives each query of a group the key of another one."""
    query, key = np.ones((1, 4, 1, 2), np.float32), np.ones((1, 2, 1, 2), np.float32)
    value = f32([[[[1, 1]], [[2, 2]]]])
    return reference("Attention", query, key, value, opset=23), [f32([[[[1, 1]], [[1, 1]], [[2, 2]], [[2, 2]]]])]


@_defect("1.18.0", "ConstantOfShape", 7177)
def a_constant_of_a_scalar() -> tuple[object, object]:
    """ConstantOfShape with a value of rank 0 is refused."""
    value = onnx.numpy_helper.from_array(np.array(3, np.int64))
    return reference("ConstantOfShape", i64(2), opset=9, value=value), [i64(3, 3)]


@_defect("1.18.0", "Hardmax", 7167)
def hardmax_of_nothing() -> tuple[object, object]:
    """Hardmax of an empty tensor is refused."""
    return reference("Hardmax", np.zeros((2, 0), np.float32), opset=13), [np.zeros((2, 0), np.float32)]


@_defect("1.18.0", "Softplus", 7169)
def softplus_of_a_scalar() -> tuple[object, object]:
    """Softplus of a scalar is refused, as exp of one is no array."""
    return reference("Softplus", f32(0.0), opset=1), [f32(np.log(2))]


@_defect("1.18.0", "Erf", 7170)
def erf_of_nothing() -> tuple[object, object]:
    """Erf of an empty tensor is refused."""
    return reference("Erf", np.zeros((0, 2), np.float32), opset=13), [np.zeros((0, 2), np.float32)]


@_defect("1.18.0", "Resize", 7105)
def cubic_resize_of_bytes() -> tuple[object, object]:
    """Resize of bytes wraps where a cubic result is beyond their range."""
    x = np.array([0, 0, 255, 255, 0, 0], np.uint8).reshape(1, 1, 1, 6)
    got = reference("Resize", x, None, f32([1, 1, 1, 2]), opset=19, mode="cubic")
    exact = reference("Resize", x.astype(np.float64), None, f32([1, 1, 1, 2]), opset=19, mode="cubic")[0]
    return [got[0] // 4], [np.clip(exact, 0, 255).astype(np.uint8) // 4]


@_defect("1.17.0", "Unique", 6596)
def unique_of_one_element() -> tuple[object, object]:
    """The inverse of Unique of one element is a scalar."""
    got = reference("Unique", f32([5]), opset=11, outputs=3)
    return got, [f32([5]), i64(0), i64(0)]


@_defect("1.17.0", "TopK", 6593)
def top_k_of_ties() -> tuple[object, object]:
    """TopK of equal elements takes the last ones first."""
    got = reference("TopK", f32([2, 2, 2]), i64(2), opset=11, outputs=2)
    return got, [f32([2, 2]), i64(0, 1)]


@_defect("1.17.0", "CumSum", 6597)
def sums_of_small_integers() -> tuple[object, object]:
    """CumSum of int32 has the type int64."""
    got = reference("CumSum", np.array([1, 2], np.int32), np.array(0), opset=14)
    return got, [np.array([1, 3], np.int32)]


@_defect("1.17.0", "ConcatFromSequence", 6369)
def stack_of_a_sequence_at_the_front() -> tuple[object, object]:
    """ConcatFromSequence with new_axis stacks at the end, whatever the axis."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        main (float[3] a, float[3] b) => (float[2, 3] y) {
          both = SequenceConstruct (a, b)
          y = ConcatFromSequence <axis = 0, new_axis = 1> (both)
        }
    """)
    feeds = {"a": f32([1, 2, 3]), "b": f32([4, 5, 6])}
    return ReferenceEvaluator(model).run(None, feeds), [f32([[1, 2, 3], [4, 5, 6]])]


@_defect("1.17.0", "NonMaxSuppression", 6354)
def suppression_without_a_threshold() -> tuple[object, object]:
    """NonMaxSuppression without its optional inputs is refused."""
    boxes = f32([[[0, 0, 1, 1], [5, 5, 6, 6]]])
    got = reference("NonMaxSuppression", boxes, f32([[[0.9, 0.8]]]), i64(2), f32([0.5]), opset=11)
    return got, [np.array([[0, 0, 0], [0, 0, 1]])]


@_defect("1.17.0", "QLinearConv", 6460)
def quantized_convolution_with_a_scale_of_each_channel() -> tuple[object, object]:
    """QLinearConv takes no scales of channels."""
    x, w, zero = np.full((1, 1, 1, 2), 2, np.uint8), np.ones((2, 1, 1, 1), np.uint8), np.array(0, np.uint8)
    got = reference("QLinearConv", x, f32(1), zero, w, f32([1, 2]), np.zeros(2, np.uint8), f32(1), zero, opset=10)
    return got, [np.array([[[[2, 2]], [[4, 4]]]], np.uint8)]


@_defect("1.16.2", "ScatterElements", 6174)
def scatter_elements_of_four_axes() -> tuple[object, object]:
    """ScatterElements of four axes is wrong or refused."""
    x = np.zeros((1, 2, 1, 2), np.float32)
    indices = np.array([[[[1, 0]]]])
    got = reference("ScatterElements", x, indices, f32([[[[7, 8]]]]), opset=18, axis=1)
    return got, [f32([[[[0, 8]], [[7, 0]]]])]


@_defect("1.16.2", "ConvTranspose", 6175)
def transposed_convolution_of_groups() -> tuple[object, object]:
    """ConvTranspose of groups is refused."""
    x, w = f32([[[1, 2], [3, 4]]]), f32([[[10]], [[100]]])
    return reference("ConvTranspose", x, w, opset=11, group=2), [f32([[[10, 20], [300, 400]]])]


@_defect("1.15.0", "MaxPool", 5741)
def a_last_window_of_max_pool_in_the_padding() -> tuple[object, object]:
    """MaxPool with ceil_mode has a window that begins in the padding."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    got = reference("MaxPool", x, opset=12, kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1)
    return got, [f32([[[[0]]]])]


@_defect("1.14.1", "ScatterND", 5358)
def scatter_nd_that_adds_to_elements() -> tuple[object, object]:
    """ScatterND with reduction="add" adds to rows where the indices name elements."""
    x = np.zeros((2, 2), np.float32)
    got = reference("ScatterND", x, np.array([[0, 1], [1, 0]]), f32([3, 4]), opset=18, reduction="add")
    return got, [f32([[0, 3], [4, 0]])]


@_defect("1.13.1", "SplitToSequence", 4831)
def parts_of_a_size() -> tuple[object, object]:
    """SplitToSequence takes the size of the parts for their number."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        main (float[5] x, int64 size) => (float[N] y) {
          parts = SplitToSequence (x, size)
          last = Constant <value_int = -1> ()
          y = SequenceAt (parts, last)
        }
    """)
    x = np.arange(5, dtype=np.float32)
    return ReferenceEvaluator(model).run(None, {"x": x, "size": np.array(2)}), [f32([4])]


@_defect("1.13.1", "Pad", 5007)
def padding_of_the_last_axis() -> tuple[object, object]:
    """Pad of an axis that is counted from the end is refused."""
    got = reference("Pad", f32([[1, 2]]), i64(1, 0), None, i64(-1), opset=18)
    return got, [f32([[0, 1, 2]])]


@_defect("1.20.1", "LpNormalization", 7618)
def a_row_of_zeros_is_normalized() -> tuple[object, object]:
    """LpNormalization of zeros is NaN."""
    return reference("LpNormalization", f32([[0, 0], [3, 4]]), opset=1, axis=1, p=2), [f32([[0, 0], [0.6, 0.8]])]


@_defect("1.19.1", "ReduceMean", 7140, issue=True)
def a_mean_of_no_axes_keeps_its_axes() -> tuple[object, object]:
    """ReduceMean with noop_with_empty_axes and without keepdims drops the axes that it does not reduce."""
    return reference("ReduceMean", f32([1]), i64(), opset=18, keepdims=0, noop_with_empty_axes=1), [f32([1])]


@_defect("1.18.0", "HardSigmoid", 7168)
def hard_sigmoid_of_halves() -> tuple[object, object]:
    """HardSigmoid of float16 is refused, as its result is float32."""
    got = reference("HardSigmoid", np.array([-1, 0.5], np.float16), opset=14)
    return [np.asarray(got[0], np.float32).round(2)], [f32([0.3, 0.6])]


@_defect("1.18.0", "Attention", 7118, issue=True)
def attention_of_heads_side_by_side() -> tuple[object, object]:
    """Attention of three axes takes the heads for the sequence."""
    query, key = np.zeros((1, 2, 4), np.float32), np.zeros((1, 3, 4), np.float32)
    value = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    got = reference("Attention", query, key, value, opset=23, q_num_heads=2, kv_num_heads=2)
    return got, [f32([[[4, 5, 6, 7], [4, 5, 6, 7]]])]


@_defect("1.17.0", "AveragePool", 6650)
def an_average_that_counts_cells_beyond_the_padding() -> tuple[object, object]:
    """AveragePool with ceil_mode and count_include_pad counts what is beyond the padding."""
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    got = reference("AveragePool", x, opset=19, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
                    count_include_pad=1)  # fmt: skip
    return got, [f32([[[[14 / 9, 10 / 3, 2], [19 / 3, 11, 6], [4.5, 7.5, 4]]]])]
