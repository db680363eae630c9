"""Pooling: an element for each window, or for each region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, call, definition, drawn, node
from onnx_parity.op_cases.onnx.windows import padding_of, size_of_window


class Windows:
    """The windows of a pooling operator, each as the places of its elements along each axis."""

    def __init__(
        self,
        x: Array,
        kernel_shape: Sequence[int],
        strides: Sequence[int] | None,
        dilations: Sequence[int] | None,
        pads: Sequence[int] | None,
        auto_pad: str,
        ceil_mode: int,
    ) -> None:
        axes = x.ndim - 2
        self.strides = list(strides or [1] * axes)
        self.dilations = list(dilations or [1] * axes)
        self.kernel = list(kernel_shape)
        self.shape = x.shape[2:]
        self.padding = padding_of(self.shape, self.kernel, self.strides, self.dilations, pads, auto_pad)
        self.number = [self._count(axis, ceil_mode) for axis in range(axes)]

    def _count(self, axis: int, ceil_mode: int) -> int:
        before, after = self.padding[axis]
        left = self.shape[axis] + before + after - size_of_window(self.kernel[axis], self.dilations[axis])
        count = (-(-left // self.strides[axis]) if ceil_mode else left // self.strides[axis]) + 1
        # A window that would begin in the padding after the tensor is left out.
        if ceil_mode and (count - 1) * self.strides[axis] >= self.shape[axis] + before:
            count -= 1
        return int(count)

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], list[list[int]]]]:
        for place in product(*map(range, self.number)):
            yield place, [self.along(axis, each) for axis, each in enumerate(place)]

    def along(self, axis: int, place: int) -> list[int]:
        """The positions of a window along an axis, those in the padding included."""
        start = place * self.strides[axis] - self.padding[axis][0]
        return [start + step * self.dilations[axis] for step in range(self.kernel[axis])]

    def inside(self, axis: int, places: Sequence[int]) -> list[int]:
        return [each for each in places if 0 <= each < self.shape[axis]]

    def padded(self, axis: int, places: Sequence[int]) -> list[int]:
        """Those in the tensor or its padding; the last window may reach beyond both, where its number is rounded up."""
        before, after = self.padding[axis]
        return [each for each in places if -before <= each < self.shape[axis] + after]


def _pool(x: Array, windows: Windows, reduce: Any) -> Array:
    made = np.zeros((*x.shape[:2], *windows.number))
    for place, places in windows:
        inside = [windows.inside(axis, each) for axis, each in enumerate(places)]
        along: tuple[Any, ...] = np.ix_(*map(range, x.shape[:2]), *inside)
        here: tuple[Any, ...] = (slice(None), slice(None), *place)
        made[here] = reduce(x[along], places)
    return made


def _last_axes(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@definition
def average_pool(
    x: Array, *, kernel_shape: Sequence[int], auto_pad: str, ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Any = None, pads: Any = None, strides: Any = None,
) -> Array:  # fmt: skip
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)

    def mean(part: Array, places: list[list[int]]) -> Array:
        find = windows.padded if count_include_pad else windows.inside
        number = int(np.prod([len(find(axis, each)) for axis, each in enumerate(places)]))
        total: Array = part.sum(_last_axes(part)) / number
        return total

    return _pool(x, windows, mean)


@definition
def max_pool(
    x: Array, *, kernel_shape: Sequence[int], auto_pad: str, ceil_mode: int = 0, storage_order: int = 0,
    dilations: Any = None, pads: Any = None, strides: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The indices are those of the whole tensor; with `storage_order`, the last two axes are column by column."""
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    shape = (*x.shape[:2], *windows.number)
    found, indices = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)
    flat = np.arange(x.size).reshape(x.shape)
    if storage_order:
        order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
        flat = np.arange(x.size).reshape([x.shape[axis] for axis in order]).transpose(order)
    for batch, channel in np.ndindex(*x.shape[:2]):
        for place, places in windows:
            inside = list(product(*(windows.inside(axis, each) for axis, each in enumerate(places))))
            best = max(inside, key=lambda at: x[(batch, channel, *at)])
            found[(batch, channel, *place)] = x[(batch, channel, *best)]
            indices[(batch, channel, *place)] = flat[(batch, channel, *best)]
    return found, indices


@definition
def lp_pool(
    x: Array, *, kernel_shape: Sequence[int], auto_pad: str, ceil_mode: int = 0, p: int = 2,
    dilations: Any = None, pads: Any = None, strides: Any = None,
) -> Array:  # fmt: skip
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _pool(x, windows, lambda part, _: (np.abs(part) ** p).sum(_last_axes(part)) ** (1 / p))


_POOLS = (
    call((1, 2, 4, 5), kernel_shape=[2, 3]),
    call((1, 1, 5, 5), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    call((1, 1, 5, 4), kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    call((1, 1, 5, 4), kernel_shape=[2, 3], strides=[2, 1], auto_pad="SAME_LOWER"),
    call((1, 1, 5, 4), kernel_shape=[2, 3], auto_pad="VALID"),
    call((1, 1, 6, 6), kernel_shape=[2, 2], dilations=[2, 3]),
    call((1, 1, 4, 4), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    call((2, 2, 5), kernel_shape=[2], strides=[2]),
    call((1, 1, 3, 3, 3), kernel_shape=[2, 2, 2]),
    call((1, 1, 1, 1), kernel_shape=[1, 1]),
    call((0, 2, 4, 4), kernel_shape=[2, 2]),
)
average_pool_ = node(
    "AveragePool",
    average_pool,
    *_POOLS,
    call((1, 1, 4, 4), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    call((1, 1, 4, 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1),
)
max_pool_1 = node("MaxPool", max_pool, *(call(*each.given, outputs=[0], **each.named) for each in _POOLS), exact=True)
max_pool_8 = node(
    "MaxPool",
    max_pool,
    call((1, 2, 4, 5), kernel_shape=[2, 3], outputs=[0, 1]),
    call((1, 2, 3, 4), kernel_shape=[2, 2], strides=[1, 2], storage_order=1, outputs=[0, 1]),
    call((1, 1, 5, 5), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], outputs=[0, 1]),
    since=8,
    exact=True,
)
lp_pool_ = node(
    "LpPool",
    lp_pool,
    *_POOLS,
    call((1, 1, 3, 3), kernel_shape=[2, 2], p=1),
    call((1, 1, 3, 3), kernel_shape=[2, 2], p=3),
)

# --- whole images -----------------------------------------------------------------------------------------------------

_IMAGES = (call((2, 3, 4, 4)), call((1, 2, 5)), call((1, 1, 1, 1)), call((0, 2, 3, 3)))


@definition
def global_average(x: Array) -> Array:
    return np.asarray(x.mean(_last_axes(x), keepdims=True))


@definition
def global_max(x: Array) -> Array:
    return np.asarray(x.max(_last_axes(x), keepdims=True))


@definition
def global_lp(x: Array, p: int) -> Array:
    return np.asarray((np.abs(x) ** p).sum(_last_axes(x), keepdims=True) ** (1 / p))


global_average_pool = node("GlobalAveragePool", global_average, *_IMAGES)
global_max_pool = node("GlobalMaxPool", global_max, *_IMAGES, exact=True)
global_lp_pool = node("GlobalLpPool", global_lp, *_IMAGES, call((1, 1, 3, 3), p=1), call((1, 1, 3, 3), p=3))


@definition
def unpooled(
    x: Array, indices: Array, output_shape: Array | None = None, *, kernel_shape: Sequence[int], pads: Any = None,
    strides: Any = None,
) -> Array:  # fmt: skip
    """Without a shape, it is the smallest that the windows fit in. The indices are of a tensor of that shape."""
    axes = x.ndim - 2
    by, around = list(strides or [1] * axes), list(pads or [0] * (2 * axes))
    sizes = [(size - 1) * by[axis] + kernel_shape[axis] - around[axis] - around[axis + axes]
             for axis, size in enumerate(x.shape[2:])]  # fmt: skip
    shape = [*x.shape[:2], *sizes]
    made = np.zeros(shape, x.dtype)
    made.reshape(-1)[indices.ravel()] = x.ravel()
    if output_shape is None:
        return made
    wanted = np.zeros([int(size) for size in output_shape], x.dtype)
    wanted[tuple(slice(size) for size in shape)] = made
    return wanted


_PLACES = [[[[5, 7], [13, 15]]]]
max_unpool = node(
    "MaxUnpool",
    unpooled,
    call((1, 1, 2, 2), _PLACES, kernel_shape=[2, 2], strides=[2, 2]),
    call((0, 1, 2, 2), (0, 1, 2, 2), kernel_shape=[2, 2], strides=[2, 2]),
    call((1, 1, 2, 2), [[[[0, 2], [6, 8]]]], kernel_shape=[2, 2]),
    # A larger width has two readings: onnx's own test has the indices of the smaller tensor; its text does not.
    call((1, 1, 2, 2), _PLACES, output_shape=[1, 1, 5, 4], kernel_shape=[2, 2], strides=[2, 2]),
    call((1, 1, 2, 2), [[[[0, 1], [2, 3]]]], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1]),
    exact=True,
)


# --- regions ----------------------------------------------------------------------------------------------------------


@definition
def pool_regions(x: Array, regions: Array, *, pooled_shape: Sequence[int], spatial_scale: float) -> Array:
    """The corners are rounded, and both belong to the region; parts of it that are empty are 0."""
    made = np.zeros((len(regions), x.shape[1], *pooled_shape))
    for number, (image, *corners) in enumerate(regions):
        left, top, right, bottom = (int(np.floor(each * spatial_scale + 0.5)) for each in corners)
        sizes = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for place in np.ndindex(*pooled_shape):
            cut = [
                slice(*(min(max(function(each * size / parts) + start, 0), limit)
                        for function, each in ((_floor, at), (_ceil, at + 1))))
                for at, size, parts, start, limit in zip(
                    place, sizes, pooled_shape, (top, left), x.shape[2:], strict=True)
            ]  # fmt: skip
            part = x[int(image), :, cut[0], cut[1]].reshape(x.shape[1], -1)
            made[(number, slice(None), *place)] = part.max(1) if part.size else 0.0
    return made


def _floor(value: float) -> int:
    return int(np.floor(value))


def _ceil(value: float) -> int:
    return int(np.ceil(value))


_REGIONS = [[0.0, 0.0, 0.0, 3.0, 3.0], [1.0, 1.0, 2.0, 4.0, 5.0]]
max_roi_pool = node(
    "MaxRoiPool",
    pool_regions,
    call((2, 2, 6, 6), _REGIONS, pooled_shape=[2, 2]),
    call((2, 2, 6, 6), (0, 5), pooled_shape=[2, 2]),
    call((2, 1, 6, 6), [[0.0, 0.0, 0.0, 8.0, 8.0]], pooled_shape=[1, 3], spatial_scale=0.5),
    exact=True,
)


@definition
def align_regions(
    x: Array, regions: Array, batch: Array, *, coordinate_transformation_mode: str = "output_half_pixel", mode: str,
    output_height: int, output_width: int, sampling_ratio: int, spatial_scale: float,
) -> Array:  # fmt: skip
    """The mean, or the largest, of points that are interpolated in each part of a region."""
    half = coordinate_transformation_mode == "half_pixel"
    made = np.zeros((len(regions), x.shape[1], output_height, output_width))
    for number, (region, image) in enumerate(zip(regions, batch, strict=True)):
        left, top, right, bottom = region * spatial_scale - (0.5 if half else 0.0)
        height, width = bottom - top, right - left
        if not half:
            height, width = max(height, 1.0), max(width, 1.0)
        part = height / output_height, width / output_width
        points = [sampling_ratio or int(np.ceil(each)) for each in part]
        for row, column in product(range(output_height), range(output_width)):
            samples = [
                _weighted(x[image], top + (row + (i + 0.5) / points[0]) * part[0],
                          left + (column + (j + 0.5) / points[1]) * part[1])
                for i, j in product(range(points[0]), range(points[1]))
            ]  # fmt: skip
            if mode == "avg":
                made[number, :, row, column] = np.mean([each.sum(0) for each in samples], 0)
            else:
                made[number, :, row, column] = np.max(np.concatenate(samples), 0)
    return made


def _weighted(image: Array, y: float, x: float) -> Array:
    """The four elements around a point, with their weights; nothing outside of the image."""
    _, height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros((4, image.shape[0]))
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, along = y - top, x - left
    return np.array([
        image[:, top, left] * (1 - down) * (1 - along), image[:, top, right] * (1 - down) * along,
        image[:, bottom, left] * down * (1 - along), image[:, bottom, right] * down * along,
    ])  # fmt: skip


_BOXES = [[0.5, 0.5, 4.0, 4.5], [1.0, 0.0, 3.0, 5.0]]
roi_align = node(
    "RoiAlign",
    align_regions,
    call((2, 2, 6, 6), _BOXES, [0, 1], output_height=2, output_width=2, sampling_ratio=2),
    call((2, 2, 6, 6), (0, 4), (0,), output_height=2, output_width=2),
    call((2, 2, 6, 6), _BOXES, [0, 1], output_height=2, output_width=2),
    call((2, 1, 6, 6), _BOXES, [1, 0], spatial_scale=0.5, output_height=1, output_width=3, sampling_ratio=1),
    call((2, 1, 6, 6), _BOXES, [1, 0], coordinate_transformation_mode="output_half_pixel", output_height=2,
         output_width=2, sampling_ratio=2),
    call((2, 1, 6, 6), _BOXES, [1, 0]),
    call((1, 1, 6, 6), drawn((1, 4), values=(0.0, 0.0, 4.0, 4.0)), [0], mode="max", output_height=2, output_width=2,
         sampling_ratio=1),
)  # fmt: skip
