"""Reading an image between its pixels, at the places that a grid names.

Written out for opsets before GridSample, one row of pixels at a time: along each axis a place has its taps, the pixels
that it is made of and their weights; a sample is the sum over all combinations of taps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.opsets.resizing import Interpolation, OffImage
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.shapes import product, shaped
from onnx_parity.exporter.lowering.values.value import Value

#: As torch numbers them.
_MODES: tuple[Interpolation, ...] = ("bilinear", "nearest", "bicubic")
_OFF_IMAGE: tuple[OffImage, ...] = ("zeros", "border", "reflection")
#: The parameter of the cubic convolution, as in torch.
_SHARPNESS = -0.75

#: Of one axis: where a tap lies, and its weight; None where that is 1.
_Tap = tuple[Value, Value | None]


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
        # A grid names the last axis first.
        number = len(spatial) - 1 - axis
        named = g.reshape(g.slice(grid, [grid.rank - 1], [number], [number + 1]), rows)
        place = _in_pixels(g, shaped(named, rows), size, align_corners)
        if mode == "bicubic":
            found = [(_onto_image(g, tap, size, off, align_corners), weight) for tap, weight in _cubic(g, place)]
        else:
            place = _onto_image(g, place, size, off, align_corners)
            found = _linear(g, place) if mode == "bilinear" else [(g.elementary("Round", place), None)]
        taps.append(found)
    pixels = _pixel_rows(g, image)
    total: Value | None = None
    for chosen in itertools.product(*taps):
        part = _tapped(g, pixels, chosen, [batch, *spatial], rows)
        total = part if total is None else g.op("Add", total, part)
    assert total is not None
    return g.reshape(g.transpose(shaped(total, [*rows, channels]), [0, 2, 1]), [batch, channels, *out])


def _pixel_rows(g: Graph, image: Value) -> Value:
    """A row of channels for each pixel, so that one Gather reads them all."""
    batch, channels, *spatial = image.sizes
    sizes = [product([batch, *spatial]), channels]
    return shaped(g.reshape(g.transpose(image, [0, *range(2, image.rank), 1]), sizes), sizes)


def _tapped(g: Graph, pixels: Value, taps: Sequence[_Tap], sizes: Sequence[Size], rows: Sequence[Size]) -> Value:
    """The pixels that taps of all axes meet in, times their weights; off the image there is nothing."""
    places = [g.unsqueeze(g.iota(sizes[0]), [1])]
    weight: Value | None = None
    inside: Value | None = None
    for (place, share), size in zip(taps, sizes[1:], strict=True):
        zero, last = g.const(0, place.dtype), g.scalar(size - 1, place.dtype)
        on = g.op("Not", g.op("Or", g.less(place, zero), g.greater(place, last)))
        inside = on if inside is None else g.op("And", inside, on)
        if share is not None:
            weight = share if weight is None else g.op("Mul", weight, share)
        # NaN is on no pixel; the place is only to be one that can be read.
        bounded = g.extreme("Max", g.extreme("Min", place, last), zero)
        places.append(g.cast(g.where(shaped(g.not_number(bounded), rows), zero, shaped(bounded, rows)), torch.int64))
    assert inside is not None
    read = g.op("Gather", pixels, g.linear(places, sizes), axis_i=0)
    if weight is not None:
        read = g.op("Mul", read, g.unsqueeze(shaped(weight, rows), [2]))
    inside = shaped(g.unsqueeze(shaped(inside, rows), [2]), [*rows, 1])
    return g.where(inside, shaped(read, [*rows, pixels.sizes[1]]), g.const(0, pixels.dtype))


def _in_pixels(g: Graph, place: Value, size: Size, align_corners: bool) -> Value:
    """From -1 and 1 to the centres of the outermost pixels, or to their outer edges."""
    extent = g.scalar(size - 1 if align_corners else size, place.dtype)
    scaled = g.op("Mul", g.op("Add", place, 1), g.op("Mul", extent, 0.5))
    return shaped(scaled if align_corners else g.op("Sub", scaled, 0.5), place.shape)


def _onto_image(g: Graph, place: Value, size: Size, off: OffImage, align_corners: bool) -> Value:
    """A place off the image moved onto it; where zeros are to be read there, it stays."""
    if off == "zeros":
        return place
    zero, last = g.const(0, place.dtype), g.scalar(size - 1, place.dtype)
    if off == "reflection":
        place = _reflected(g, place, size, align_corners)
    return shaped(g.extreme("Max", g.extreme("Min", place, last), zero), place.shape)


def _reflected(g: Graph, place: Value, size: Size, align_corners: bool) -> Value:
    """Folded between the centres, or the edges, of the outermost pixels: up and down again over twice that span."""
    if align_corners and isinstance(size, int) and size == 1:
        return g.op("Mul", place, 0)
    low = 0.0 if align_corners else -0.5
    # Of a single pixel the centres are one: every place is on it, and there is nothing to divide by.
    span = g.scalar(torch.sym_max(size - 1, 1) if align_corners else size, place.dtype)
    distance = g.op("Abs", g.op("Sub", place, low) if low else place)
    turns = g.op("Floor", g.op("Div", distance, span))
    rest = g.op("Sub", distance, g.op("Mul", turns, span))
    pairs = g.op("Floor", g.op("Mul", turns, 0.5))
    is_odd = g.equal(g.op("Sub", turns, g.op("Add", pairs, pairs)), g.const(1, place.dtype))
    folded = g.where(
        shaped(is_odd, place.shape), shaped(g.op("Sub", span, rest), place.shape), shaped(rest, place.shape)
    )
    return shaped(g.op("Add", folded, low) if low else folded, place.shape)


def _linear(g: Graph, place: Value) -> list[_Tap]:
    low = g.op("Floor", place)
    part = g.op("Sub", place, low)
    return [(low, g.op("Sub", g.const(1, place.dtype), part)), (g.op("Add", low, 1), part)]


def _cubic(g: Graph, place: Value) -> list[_Tap]:
    low = g.op("Floor", place)
    part = g.op("Sub", place, low)
    rest = g.op("Sub", g.const(1, place.dtype), part)
    return [
        (shaped(g.op("Add", low, number), place.shape), weight(g, g.op("Add", distance, 1) if away else distance))
        for number, distance, weight, away in (
            (-1, part, _far_weight, True),
            (0, part, _near_weight, False),
            (1, rest, _near_weight, False),
            (2, rest, _far_weight, True),
        )
    ]


def _near_weight(g: Graph, x: Value) -> Value:
    """((a + 2) x - (a + 3)) x² + 1, for a distance of at most 1"""
    scaled = g.op("Sub", g.op("Mul", x, _SHARPNESS + 2), _SHARPNESS + 3)
    return g.op("Add", g.op("Mul", g.op("Mul", scaled, x), x), 1)


def _far_weight(g: Graph, x: Value) -> Value:
    """((a x - 5a) x + 8a) x - 4a, for a distance between 1 and 2"""
    scaled = g.op("Mul", g.op("Sub", g.op("Mul", x, _SHARPNESS), 5 * _SHARPNESS), x)
    return g.op("Sub", g.op("Mul", g.op("Add", scaled, 8 * _SHARPNESS), x), 4 * _SHARPNESS)
