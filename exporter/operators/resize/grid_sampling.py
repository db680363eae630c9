"""grid_sample: an image interpolated at the coordinates that a grid gives.

If the opset has no GridSample, it is composed of other operators. Along each axis a coordinate has taps: the pixels
from which it is interpolated, and their weights. A sample is the sum over all combinations of the taps of the axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.opsets.spatial import Interpolation, OffImage
from onnx_parity.exporter.lowering.values.shapes import product, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.recording.fakes.broadcasting import has_unknown_sizes
from onnx_parity.exporter.recording.fakes.metadata import are_on_one_device, describe
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of

#: The modes and the paddings, by the numbers that torch gives them.
_MODES: tuple[Interpolation, ...] = ("bilinear", "nearest", "bicubic")
_OFF_IMAGE: tuple[OffImage, ...] = ("zeros", "border", "reflection")
#: The parameter of the cubic convolution, as in torch.
_CUBIC_A = -0.75

#: Along one axis, the coordinate of a pixel and its weight; None stands for a weight of 1.
_Tap = tuple[Value, Value | None]


@result_of(
    "aten::grid_sampler_2d",
    "aten::grid_sampler_3d",
    why="torch computes it by its definition, in a second",
)
def at_points(input: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    image, points = describe(input), describe(grid)
    axes = len(image.shape) - 2
    fits = len(points.shape) == axes + 2 and points.shape[-1] == axes
    # The size of what a branch computes may be known only in the branch.
    fits = fits and (image.shape[0] == points.shape[0] or has_unknown_sizes([grid]))
    is_plain = fits and image.dtype == points.dtype and image.dtype.is_floating_point and 0 not in image.shape[2:]
    if not is_plain or not are_on_one_device(input, grid):
        return NotImplemented
    return Contiguous(image.dtype, (*input.shape[:2], *grid.shape[1:-1]))


@lowering("aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(
    g: Graph, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    mode, off = _MODES[interpolation_mode], _OFF_IMAGE[padding_mode]
    sampled = g.grid_sample(input, grid, mode, off, align_corners)
    return sampled if sampled is not None else _written_out(g, input, grid, mode, off, align_corners)


def _written_out(g: Graph, image: Value, grid: Value, mode: Interpolation, off: OffImage, align_corners: bool) -> Value:
    batch, channels, *spatial = image.sizes
    out = grid.sizes[1:-1]
    rows: list[Size] = [batch, product(out)]
    taps = []
    for axis, size in enumerate(spatial):
        # The grid has the coordinate of the last axis first.
        number = len(spatial) - 1 - axis
        normalized = g.reshape(g.slice(grid, [grid.rank - 1], [number], [number + 1]), rows)
        coordinate = _in_pixels(g, normalized, size, align_corners)
        if mode == "bicubic":
            found = [(_onto_image(g, tap, size, off, align_corners), weight) for tap, weight in _cubic(g, coordinate)]
        else:
            coordinate = _onto_image(g, coordinate, size, off, align_corners)
            found = _linear(g, coordinate) if mode == "bilinear" else [(g.elementary("Round", coordinate), None)]
        taps.append(found)
    pixels = _pixel_rows(g, image)
    total: Value | None = None
    for chosen in itertools.product(*taps):
        part = _tapped(g, pixels, chosen, [batch, *spatial], rows)
        total = part if total is None else g.op("Add", total, part)
    assert total is not None
    return g.reshape(g.transpose(total, [0, 2, 1]), [batch, channels, *out])


def _pixel_rows(g: Graph, image: Value) -> Value:
    """The image as a row of channels for each pixel, so that one Gather reads all channels."""
    batch, channels, *spatial = image.sizes
    sizes = [product([batch, *spatial]), channels]
    return g.reshape(g.transpose(image, [0, *range(2, image.rank), 1]), sizes)


def _tapped(g: Graph, pixels: Value, taps: Sequence[_Tap], sizes: Sequence[Size], rows: Sequence[Size]) -> Value:
    """The pixels at one tap of each axis, times their weights, and 0 outside of the image."""
    indices = [g.unsqueeze(g.iota(sizes[0]), [1])]
    weight: Value | None = None
    inside: Value | None = None
    for (coordinate, share), size in zip(taps, sizes[1:], strict=True):
        zero, last = g.const(0, coordinate.dtype), g.scalar(size - 1, coordinate.dtype)
        on = g.op("Not", g.op("Or", g.less(coordinate, zero), g.greater(coordinate, last)))
        inside = on if inside is None else g.op("And", inside, on)
        if share is not None:
            weight = share if weight is None else g.op("Mul", weight, share)
        # A coordinate of NaN is outside of the image: any valid index will do, since its pixel is not used.
        bounded = g.extreme("Max", g.extreme("Min", coordinate, last), zero)
        indices.append(g.cast(g.where(shaped(g.is_nan(bounded), rows), zero, shaped(bounded, rows)), torch.int64))
    assert inside is not None
    read = g.op("Gather", pixels, g.flat_index(indices, sizes), axis_i=0)
    if weight is not None:
        read = g.op("Mul", read, g.unsqueeze(weight, [2]))
    inside = shaped(g.unsqueeze(shaped(inside, rows), [2]), [*rows, 1])
    return g.where(inside, shaped(read, [*rows, pixels.sizes[1]]), g.const(0, pixels.dtype))


def _in_pixels(g: Graph, coordinate: Value, size: Size, align_corners: bool) -> Value:
    """Coordinates in pixels, where -1 and 1 are the centres of the outermost pixels, or their outer edges."""
    extent = g.scalar(size - 1 if align_corners else size, coordinate.dtype)
    scaled = g.op("Mul", g.op("Add", coordinate, 1), g.op("Mul", extent, 0.5))
    return shaped(scaled if align_corners else g.op("Sub", scaled, 0.5), coordinate.shape)


def _onto_image(g: Graph, coordinate: Value, size: Size, off: OffImage, align_corners: bool) -> Value:
    """Coordinates outside of the image moved onto its border or reflected; unchanged if zeros are read there."""
    if off == "zeros":
        return coordinate
    zero, last = g.const(0, coordinate.dtype), g.scalar(size - 1, coordinate.dtype)
    if off == "reflection":
        coordinate = _reflected(g, coordinate, size, align_corners)
    return shaped(g.extreme("Max", g.extreme("Min", coordinate, last), zero), coordinate.shape)


def _reflected(g: Graph, coordinate: Value, size: Size, align_corners: bool) -> Value:
    """Coordinates reflected at the centres, or the outer edges, of the outermost pixels."""
    if align_corners and isinstance(size, int) and size == 1:
        return g.op("Mul", coordinate, 0)
    low = 0.0 if align_corners else -0.5
    # With a single pixel the span is 0: it must not be divided by, and every coordinate is that pixel.
    span = g.scalar(torch.sym_max(size - 1, 1) if align_corners else size, coordinate.dtype)
    distance = g.op("Abs", g.op("Sub", coordinate, low) if low else coordinate)
    turns = g.op("Floor", g.op("Div", distance, span))
    rest = g.op("Sub", distance, g.op("Mul", turns, span))
    pairs = g.op("Floor", g.op("Mul", turns, 0.5))
    is_odd = g.equal(g.op("Sub", turns, g.op("Add", pairs, pairs)), g.const(1, coordinate.dtype))
    folded = g.where(
        shaped(is_odd, coordinate.shape),
        shaped(g.op("Sub", span, rest), coordinate.shape),
        shaped(rest, coordinate.shape),
    )
    return g.op("Add", folded, low) if low else folded


def _linear(g: Graph, coordinate: Value) -> list[_Tap]:
    low = g.op("Floor", coordinate)
    part = g.op("Sub", coordinate, low)
    return [(low, g.op("Sub", g.const(1, coordinate.dtype), part)), (g.op("Add", low, 1), part)]


def _cubic(g: Graph, coordinate: Value) -> list[_Tap]:
    low = g.op("Floor", coordinate)
    part = g.op("Sub", coordinate, low)
    rest = g.op("Sub", g.const(1, coordinate.dtype), part)
    return [
        (g.op("Add", low, number), weight(g, g.op("Add", distance, 1) if away else distance))
        for number, distance, weight, away in (
            (-1, part, _far_weight, True),
            (0, part, _near_weight, False),
            (1, rest, _near_weight, False),
            (2, rest, _far_weight, True),
        )
    ]


def _near_weight(g: Graph, x: Value) -> Value:
    """((a + 2) x - (a + 3)) x² + 1, for a distance x of at most 1"""
    scaled = g.op("Sub", g.op("Mul", x, _CUBIC_A + 2), _CUBIC_A + 3)
    return g.op("Add", g.op("Mul", g.op("Mul", scaled, x), x), 1)


def _far_weight(g: Graph, x: Value) -> Value:
    """((a x - 5a) x + 8a) x - 4a, for a distance x between 1 and 2"""
    scaled = g.op("Mul", g.op("Sub", g.op("Mul", x, _CUBIC_A), 5 * _CUBIC_A), x)
    return g.op("Sub", g.op("Mul", g.op("Add", scaled, 8 * _CUBIC_A), x), 4 * _CUBIC_A)
