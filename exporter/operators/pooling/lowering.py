"""Average and maximum pooling over windows of a given size; see `adaptive_pooling` for a given number of windows.

With `ceil_mode` the last window may extend beyond the input. torch and ONNX disagree on how many elements of it an
average divides by, so ONNX's ceil_mode is not used: the overhang is added to `pads`, which AveragePool does not count.
Along a dynamic axis the overhang is stride - 1, which rounds up at every size, or less where torch drops a last window
that does not start within the input.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.dtypes import extremes
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import never_exceeds, product, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.convolution.lowering import batched, spread
from onnx_parity.exporter.registry.lowerings import lowering


class Windows:
    """The windows of a pooling: kernel, stride, padding, dilation and overhang of each spatial axis."""

    def __init__(
        self, g: Graph, x: Value, axes: int, kernel: list[int], stride: list[int] | None, padding: list[int] | int,
        dilation: list[int] | int = 1, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        self.axes = axes
        self.sizes = x.sizes[-axes:]
        self.counts: tuple[Size, ...] = g.out.shape[-axes:]
        self.kernel = spread(kernel, axes)
        self.stride = spread(stride or self.kernel, axes)
        self.padding = spread(padding, axes)
        self.dilation = spread(dilation, axes)
        self.reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True)]
        self.overhang = [self._overhang(g, axis) if ceil_mode else 0 for axis in range(axes)]

    def _overhang(self, g: Graph, axis: int) -> int:
        """How far the last window extends beyond the padded axis; for a dynamic axis, at most."""
        size, count, stride, padding = self.sizes[axis], self.counts[axis], self.stride[axis], self.padding[axis]
        if isinstance(size, int) and isinstance(count, int):
            return max(0, (count - 1) * stride + self.reach[axis] - size - 2 * padding)
        # torch drops a last window that does not start within the input.
        return min(stride, self.reach[axis] - padding) - 1

    @property
    def end(self) -> list[int]:
        """The padding at the end of each axis, including the overhang."""
        return [padding + overhang for padding, overhang in zip(self.padding, self.overhang, strict=True)]

    @property
    def may_miss_the_image(self) -> bool:
        """Whether a window may have its elements before and behind an axis, and none on it."""
        return any(
            padding and dilation > 1 and not never_exceeds(dilation, size)
            for padding, dilation, size in zip(self.padding, self.dilation, self.sizes, strict=True)
        )


@lowering("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d")
def avg_pool(
    g: Graph, self: Value, kernel_size: list[int], stride: list[int] | None = None, padding: list[int] | int = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """The mean of each window. Padding counts as elements if `count_include_pad`, and overhang never does"""
    if divisor_override is not None and divisor_override < 0:
        # A zero is 0.0, as in torch, which adds the quotient to 0.
        opposite = avg_pool(g, self, kernel_size, stride, padding, ceil_mode, count_include_pad, -divisor_override)
        return g.op("Sub", g.const(0, opposite.dtype), opposite)
    axes = int(g.operator[-2])
    x, unbatched = batched(g, self, axes)
    windows = Windows(g, self, axes, kernel_size, stride, padding, ceil_mode=ceil_mode)
    g.note_occupied([*self.sizes[-axes:], *g.out.shape[-axes:]])  # torch refuses images without elements.
    if not g.has_kernel("AveragePool", x.dtype):
        pooled = _average_by_taps(g, x, windows, count_include_pad, divisor_override)
    elif divisor_override is not None:
        pooled = _average(g, _with_zeros(g, x, windows.padding, windows.end), windows, [0] * axes, [0] * axes)
        pooled = g.op("Mul", pooled, math.prod(windows.kernel) / divisor_override)
    elif count_include_pad and any(windows.padding) and any(windows.overhang):
        x = _with_zeros(g, x, windows.padding, windows.padding)
        pooled = _average(g, x, windows, [0] * axes, windows.overhang)
    else:
        pooled = _average(g, x, windows, windows.padding, windows.end, count_include_pad)
    return g.squeeze(pooled, [0]) if unbatched else pooled


def _average(
    g: Graph, x: Value, windows: Windows, before: list[int], after: list[int], counts_padding: bool = False
) -> Value:
    return g.op(
        "AveragePool", x, kernel_shape_i=windows.kernel, strides_i=windows.stride, pads_i=[*before, *after],
        count_include_pad_i=int(counts_padding and any(before)),
    )  # fmt: skip


def _with_zeros(g: Graph, x: Value, before: list[int], after: list[int]) -> Value:
    return g.pad(x, [0, 0, *before], [0, 0, *after])


def _average_by_taps(g: Graph, x: Value, windows: Windows, counts_padding: bool, divisor: int | None) -> Value:
    """The sums of the windows, divided by their sizes: integers are truncated, as in torch."""
    total = _by_taps(g, _with_zeros(g, x, windows.padding, windows.end), windows, "Add")
    return g.op("Div", total, divisor if divisor is not None else _window_sizes(g, windows, x.dtype, counts_padding))


def _window_sizes(g: Graph, windows: Windows, dtype: torch.dtype, counts_padding: bool) -> Value:
    """The number of elements of each window that are in the input, or in the input and its padding."""
    counts = torch.ones([1, 1, *[1] * windows.axes], dtype=dtype)
    for axis, (size, count) in enumerate(zip(windows.sizes, windows.counts, strict=True)):
        if not (isinstance(size, int) and isinstance(count, int)):
            g.unsupported(
                f"an average pooling of {dtype} over a dynamic axis is not supported, because onnxruntime pools "
                "torch.float32 only: cast to torch.float32 before it"
            )
        padding = windows.padding[axis]
        low, high = (-padding, size + padding) if counts_padding else (0, size)
        starts = torch.arange(count) * windows.stride[axis] - padding
        covered = (starts + windows.kernel[axis]).clamp(max=high) - starts.clamp(min=low)
        counts = counts * covered.to(dtype).reshape([-1 if a == axis else 1 for a in range(windows.axes)])
    return g.const(counts)


@lowering("aten::max_pool1d", "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices")
def max_pool(
    g: Graph, self: Value, kernel_size: list[int], stride: list[int] | None = None, padding: list[int] | int = 0,
    dilation: list[int] | int = 1, ceil_mode: bool = False,
) -> Value | tuple[Value, ...]:  # fmt: skip
    axes = int(g.operator.partition("pool")[2][0])
    x, unbatched = batched(g, self, axes)
    windows = Windows(g, self, axes, kernel_size, stride, padding, dilation, ceil_mode)
    g.note_occupied([*self.sizes[-axes:], *g.out.shape[-axes:]])
    results = max_over(g, x, windows, len(g.node.outputs) > 1 and g.is_used(1))
    if unbatched:
        results = [g.squeeze(result, [0]) for result in results]
    return results[0] if len(results) == 1 else tuple(results)


def max_over(g: Graph, x: Value, windows: Windows, wants_indices: bool) -> list[Value]:
    """The maxima of the windows and, if wanted, their indices in the flattened plane."""
    # For a window of -inf only, onnxruntime's fast kernel returns -3.4e38; the one that also returns indices does not.
    keeps_minus_infinity = x.dtype not in (torch.float64, *_INTS) and _may_be_minus_infinity(x)
    dilated = any(d != 1 for d in windows.dilation)
    # ONNX requires padding smaller than the kernel, even where dilation makes the window wider.
    wide = any(end >= kernel for end, kernel in zip(windows.end, windows.kernel, strict=True))
    if windows.may_miss_the_image:
        # For such a window onnxruntime returns -3.4e38, unless a Pad has written the padding.
        wide = keeps_minus_infinity = True
    # onnxruntime fuses a Pad with zeros, the lowest uint8, into the MaxPool, whose padding is then too wide again.
    is_fused = wide and x.dtype is torch.uint8
    if is_fused or not g.can_max_pool(x.dtype, dilated=dilated, indices=wants_indices):
        lowest = extremes(x.dtype)[0]
        padded = g.pad(x, [0, 0, *windows.padding], [0, 0, *windows.end], value=lowest)
        if wants_indices:
            return _maxima_by_taps(g, padded, windows)
        return [_by_taps(g, padded, windows, "Max")]
    before, after = windows.padding, windows.end
    plane = list(windows.sizes)
    if wide:
        plane = [b + size + a for b, size, a in zip(before, plane, after, strict=True)]
        x = g.pad(x, [0, 0, *before], [0, 0, *after], value=extremes(x.dtype)[0])
        before = after = [0] * windows.axes
    attributes: dict[str, Any] = {
        "kernel_shape_i": windows.kernel,
        "strides_i": windows.stride,
        "pads_i": [*before, *after],
        "dilations_i": windows.dilation if dilated else None,
    }
    if not wants_indices:
        return [_max(g, x, keeps_minus_infinity, attributes)]
    pooled, indices = g.op("MaxPool", x, **attributes, outputs=2)
    # ONNX's indices are into the whole flattened tensor, and torch's into each plane.
    _, in_plane = _divmod(g, indices, product(plane))
    return [pooled, _without_padding(g, in_plane, windows, plane) if wide else in_plane]


def _divmod(g: Graph, indices: Value, size: Size) -> tuple[Value, Value]:
    """The quotient and the remainder of indices, which are not negative."""
    divisor = g.scalar(size, torch.int64)
    quotient: Value = g.op("Div", indices, divisor)
    return quotient, g.op("Sub", indices, g.op("Mul", quotient, divisor))


def _without_padding(g: Graph, indices: Value, windows: Windows, padded: list[Size]) -> Value:
    """Indices into a padded plane as indices into the plane itself."""
    flat, stride = None, g.scalar(1, torch.int64)
    for axis in reversed(range(windows.axes)):
        # The first axis has the quotient that is left.
        indices, along = _divmod(g, indices, padded[axis]) if axis else (indices, indices)
        if windows.padding[axis]:
            along = g.op("Sub", along, g.scalar(windows.padding[axis], torch.int64))
            # In a window of -inf only, the padding comes first, and torch returns the first element of the input.
            first = g.remainder(along, g.scalar(windows.dilation[axis], torch.int64))
            along = g.where(g.less(along, g.scalar(0, torch.int64)), first, along)
        along = g.op("Mul", along, stride)
        flat = along if flat is None else g.op("Add", along, flat)
        stride = g.op("Mul", stride, g.scalar(windows.sizes[axis], torch.int64))
    assert flat is not None
    return flat


def _max(g: Graph, x: Value, keeps_minus_infinity: bool, attributes: dict[str, Any]) -> Value:
    if keeps_minus_infinity and g.can_max_pool(x.dtype, indices=True):
        y: Value = g.op("MaxPool", x, **attributes, outputs=2)[0]
        return y
    y = g.op("MaxPool", x, **attributes)
    if not keeps_minus_infinity:
        return y
    above = g.cast(g.greater(x, g.const(-math.inf, x.dtype)), torch.float32)
    any_above = g.greater(g.op("MaxPool", above, **attributes), g.const(0, torch.float32))
    return g.where(any_above, y, g.const(-math.inf, x.dtype))


_INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
#: Operators that never return -inf, or only if the values of the network have overflowed already.
_ABOVE_MINUS_INFINITY = frozenset(
    {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Abs", "Softplus", "Tanh", "Elu", "LeakyRelu", "Gelu",
     "Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "InstanceNormalization", "LayerNormalization"}
)  # fmt: skip
#: Operators that return -inf only if their inputs, or the first input of all but Concat, contain it.
_PASS_ON = frozenset({"Concat", "MaxPool", "AveragePool", "Identity", "Dropout", "Transpose", "Reshape", "Unsqueeze"})


def _may_be_minus_infinity(x: Value) -> bool:
    pending, seen = [x.ir], set()
    while pending:
        value = pending.pop()
        node = value.producer()
        if id(value) in seen or (node is not None and node.op_type in _ABOVE_MINUS_INFINITY):
            continue
        if node is None or node.op_type not in _PASS_ON:
            return True
        seen.add(id(value))
        pending.extend(each for each in node.inputs[: None if node.op_type == "Concat" else 1] if each is not None)
    return False


def _by_taps(g: Graph, x: Value, windows: Windows, how: str) -> Value:
    """Sums or maxima without a pooling operator: along each axis, of one strided slice for each tap of the kernel."""
    for axis in range(windows.axes):
        taps = [_tap(g, x, windows, [axis], [tap]) for tap in range(windows.kernel[axis])]
        total = taps[0]
        for tap in taps[1:]:
            total = g.extreme("Max", total, tap) if how == "Max" else g.op(how, total, tap)
        x = shaped(total, taps[0].shape)
    return x


def _tap(g: Graph, x: Value, windows: Windows, axes: Sequence[int], taps: Sequence[int]) -> Value:
    """The elements at one tap of the kernel along some axes, for all windows."""
    spatial = [x.rank - windows.axes + axis for axis in axes]
    starts = [tap * windows.dilation[axis] for axis, tap in zip(axes, taps, strict=True)]
    strides = [windows.stride[axis] for axis in axes]
    counts = [windows.counts[axis] for axis in axes]
    stops = [s + (c - 1) * stride + 1 for s, c, stride in zip(starts, counts, strides, strict=True)]
    sizes = list(x.sizes)
    for axis, count in zip(spatial, counts, strict=True):
        sizes[axis] = count
    return shaped(g.slice(x, spatial, starts, stops, strides), sizes)


def _maxima_by_taps(g: Graph, x: Value, windows: Windows) -> list[Value]:
    """Maxima and the indices of the first of equal ones, without a pooling operator."""
    if not all(isinstance(size, int) for size in (*windows.sizes, *windows.counts)):
        reason = (
            f"the indices of a max_pool of {x.dtype} over a dynamic axis cannot be written without ONNX's MaxPool: "
            "remove that axis from dynamic_axes"
        )
        g.require_opset(10 if any(d != 1 for d in windows.dilation) else 8, reason)
        g.unsupported(reason)
    sizes = [int(size) for size in windows.sizes]
    axes = range(windows.axes)
    best = indices = None
    for taps in itertools.product(*(range(kernel) for kernel in windows.kernel)):
        met = _tap(g, x, windows, axes, taps)
        flat = torch.zeros([1] * windows.axes, dtype=torch.int64)
        inside = torch.ones([1] * windows.axes, dtype=torch.bool)
        for axis in axes:
            along = torch.arange(int(windows.counts[axis])) * windows.stride[axis] - windows.padding[axis]
            along = along + taps[axis] * windows.dilation[axis]
            if best is None:  # Where torch begins, of a window that has no element of the input too.
                along = torch.where(along < 0, along % windows.dilation[axis], along)
            along = along.reshape([-1 if a == axis else 1 for a in axes])
            flat = flat * sizes[axis] + along
            inside = inside & (along >= 0) & (along < sizes[axis])
        index = g.expand(g.const(flat.broadcast_to([int(count) for count in windows.counts])), met.sizes)
        if best is None or indices is None:
            best, indices = met, index
            first_is_real = inside
            continue
        better = g.greater(met, best)
        if x.dtype.is_floating_point:
            better = g.op("Or", better, g.is_nan(met))
        if not bool(first_is_real.all()):
            # In a window that starts in the padding, the first element of the input is taken, however low it is.
            fresh = g.const((inside & ~first_is_real).broadcast_to([int(count) for count in windows.counts]))
            better = g.op("Or", better, fresh)
            first_is_real = first_is_real | inside
        best = g.where(better, met, best)
        indices = g.where(better, index, indices)
    assert best is not None and indices is not None
    return [best, indices]
