"""Images: their sizes, grids of points in them, boxes, and files."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from onnx_parity.harness.onnx_node import Array, Types, call, definition, drawn, node

# --- Resize and Upsample ----------------------------------------------------------------------------------------------


def _place(mode: str, at: float, scale: float, old: int, new: int, wanted: float, roi: tuple[float, float]) -> float:
    """Where an element of the result lies in the input."""
    match mode:
        case "half_pixel":
            return (at + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            adjustment = new / wanted
            return old / 2 * (1 - adjustment) + (at + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (at + 0.5) / scale - 0.5 if new > 1 else 0.0
        case "align_corners":
            return at * (old - 1) / (new - 1) if new > 1 else 0.0
        case "asymmetric":
            return at / scale
        case "tf_half_pixel_for_nn":
            return (at + 0.5) / scale
        case _:
            start, end = roi
            if new > 1:
                return start * (old - 1) + at * (end - start) * (old - 1) / (new - 1)
            return 0.5 * (start + end) * (old - 1)


def _cubic(distance: float, a: float) -> float:
    x = abs(distance)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _nearest(mode: str, place: float) -> int:
    match mode:
        case "round_prefer_floor":
            return int(np.ceil(place - 0.5))
        case "round_prefer_ceil":
            return int(np.floor(place + 0.5))
        case "floor":
            return int(np.floor(place))
        case _:
            return int(np.ceil(place))


def _weights(
    old: int, new: int, scale: float, roi: tuple[float, float], *, mode: str, transformation: str, nearest: str,
    a: float, exclude: bool, antialias: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """What each element of the result takes of each of the input along an axis; and which lie outside of it."""
    made, outside = np.zeros((new, old)), np.zeros(new, bool)
    wanted = scale * old
    for at in range(new):
        place = _place(transformation, at, scale, old, new, wanted, roi)
        outside[at] = not 0 <= place <= old - 1
        if mode == "nearest":
            made[at, min(max(_nearest(nearest, place), 0), old - 1)] = 1
            continue
        stretch = max(1.0, 1 / scale) if antialias else 1.0
        reach = 2 * stretch if mode == "cubic" else stretch
        taken = range(int(np.floor(place - reach)) + 1, int(np.ceil(place + reach)) + 1)
        values = [_cubic((each - place) / stretch, a) if mode == "cubic" else max(0.0, 1 - abs(each - place) / stretch)
                  for each in taken]  # fmt: skip
        if exclude or antialias:
            values = [
                value if 0 <= each < old or not exclude else 0.0 for each, value in zip(taken, values, strict=True)
            ]
            values = [value / sum(values) for value in values]
        for each, value in zip(taken, values, strict=True):
            made[at, min(max(each, 0), old - 1)] += value
    return made, outside


@definition
def resized(
    x: Array, roi: Any = None, scales: Any = None, sizes: Any = None, *, mode: str,
    coordinate_transformation_mode: str = "asymmetric", nearest_mode: str = "floor", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, antialias: int = 0, axes: Any = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Array:  # fmt: skip
    chosen = [axis % x.ndim for axis in (range(x.ndim) if axes is None else axes)]
    if sizes is not None and sizes.size:
        factors = [int(size) / x.shape[axis] for axis, size in zip(chosen, sizes, strict=True)]
        news = [int(size) for size in sizes]
        if keep_aspect_ratio_policy != "stretch":
            common = min(factors) if keep_aspect_ratio_policy == "not_larger" else max(factors)
            factors = [common] * len(chosen)
            news = [int(np.floor(common * x.shape[axis] + 0.5)) for axis in chosen]
    else:
        factors = [float(scale) for scale in scales]
        news = [int(np.floor(x.shape[axis] * scale)) for axis, scale in zip(chosen, factors, strict=True)]
    if not x.size:
        sizes_by_axis = dict(zip(chosen, news, strict=True))
        return np.zeros([sizes_by_axis.get(axis, size) for axis, size in enumerate(x.shape)], x.dtype)
    made, beyond = x if mode == "nearest" else x.astype(np.float64), np.zeros([1] * x.ndim, bool)
    for number, (axis, new, scale) in enumerate(zip(chosen, news, factors, strict=True)):
        if x.shape[axis] == new and scale == 1 and coordinate_transformation_mode != "tf_crop_and_resize":
            continue
        part = (0.0, 1.0) if roi is None or not roi.size else (float(roi[number]), float(roi[number + len(chosen)]))
        weights, outside = _weights(
            x.shape[axis], new, scale, part, mode=mode, transformation=coordinate_transformation_mode,
            nearest=nearest_mode, a=cubic_coeff_a, exclude=bool(exclude_outside), antialias=bool(antialias),
        )  # fmt: skip
        if mode == "nearest":
            made = np.take(made, weights.argmax(1), axis)
            continue
        made = np.moveaxis(np.tensordot(weights, made, (1, axis)), 0, axis)
        shape = [1] * x.ndim
        shape[axis] = new
        beyond = beyond | outside.reshape(shape)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        made = np.where(beyond, extrapolation_value, made)
    return made


_X, _LARGER, _SMALLER = (1, 1, 3, 4), [1.0, 1.0, 2.0, 1.5], [1.0, 1.0, 0.7, 0.6]
_MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")


def _is_number(types: Types) -> bool:
    return not any(part in types.get("T1", types.get("T", "")) for part in ("string", "bool", "complex"))


def _is_float(types: Types) -> bool:
    return any(part in types["T1"] for part in ("float", "double"))


@definition
def scaled(x: Array, scales: Any, *, mode: str) -> Array:
    """Before version 11, scales are all that there is."""
    return np.asarray(resized.function(x, scales=scales, mode=mode))


resize_10 = node(
    "Resize",
    scaled,
    call(_X, scales=_LARGER),
    call(_X, scales=[1.0, 1.0, 2.0, 2.0], mode="linear"),
    where=_is_number,
    before=11,
)
resize_10_of_others, upsample_of_others = (
    node(operator, scaled, call(_X, scales=_LARGER), where=lambda types: not _is_number(types), before=11, exact=True)
    for operator in ("Resize", "Upsample")
)
resize_11 = node(
    "Resize",
    resized,
    *(call(_X, drawn((0,)), _LARGER, mode="nearest", nearest_mode=each, coordinate_transformation_mode="half_pixel")
      for each in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    call(_X, drawn((0,)), _SMALLER, mode="nearest", coordinate_transformation_mode="asymmetric"),
    call(_X, drawn((0,)), drawn((0,)), [1, 1, 2, 6], mode="nearest", before=13),
    call(_X, None, None, [1, 1, 2, 6], mode="nearest", since=13),
    usual={"T2": "float"},
    since=11,
    exact=True,
)  # fmt: skip
resize_smoothly = node(
    "Resize",
    resized,
    *(call(_X, drawn((0,)), scales, mode=mode, coordinate_transformation_mode=each)
      for mode in ("linear", "cubic") for scales in (_LARGER, _SMALLER) for each in _MODES[:4]),
    call(_X, drawn((0,)), _LARGER, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    call(_X, None, None, [1, 1, 5, 3], mode="linear", since=13),
    call(_X, [0.0, 0.0, 0.2, 0.4, 1.0, 1.0, 0.8, 1.2], None, [1, 1, 3, 3], mode="linear",
         coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0, since=13),
    call(_X, [0.0, 0.0, 0.2, 0.4, 1.0, 1.0, 0.8, 1.2], drawn((0,)), [1, 1, 3, 3], mode="linear",
         coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0, before=13),
    usual={"T2": "float"},
    where=_is_float,
    since=11,
    ulps_of_largest=16,
)  # fmt: skip
resize_18 = node(
    "Resize",
    resized,
    *(call((1, 1, 5, 6), None, _SMALLER, mode=mode, antialias=1) for mode in ("linear", "cubic")),
    call(_X, None, [2.0, 1.5], mode="linear", axes=[2, 3]),
    call(_X, None, None, [6, 6], mode="linear", axes=[3, 2]),
    call(_X, None, None, [7, 8], axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    call(_X, None, None, [7, 8], axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
    call(_X, None, _SMALLER, mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
    where=_is_float,
    since=18,
)  # fmt: skip
upsample_7 = node(
    "Upsample",
    scaled,
    call(_X, scales=[1.0, 1.0, 2.0, 3.0]),
    call((0, 1, 3, 4), scales=[1.0, 1.0, 2.0, 3.0]),
    call(_X, scales=[1.0, 1.0, 2.0, 2.0], mode="linear"),
    where=_is_number,
)

# --- grids ------------------------------------------------------------------------------------------------------------


def sample(x: torch.Tensor, grid: torch.Tensor, *, align_corners: int, mode: str, padding_mode: str) -> torch.Tensor:
    named = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x.double(), grid.double(), named, padding_mode, bool(align_corners))


def _grids(linear: str, cubic: str) -> list[Any]:
    x, grid = (1, 2, 3, 4), drawn((1, 2, 3, 2), -1.2, 1.2)
    return [
        call(x, grid, mode="nearest"),
        call(x, grid),
        *(call(x, grid, mode=linear, padding_mode=each) for each in ("zeros", "border", "reflection")),
        call(x, grid, mode=linear, align_corners=1),
        call(x, grid, mode=cubic),
        call(x, grid, mode=cubic, padding_mode="border", align_corners=1),
    ]


_FLOATING: dict[str, Any] = {"usual": {"T2": "float"}, "where": _is_float}
grid_sample_16 = node("GridSample", sample, *_grids("bilinear", "bicubic"), before=20, **_FLOATING)
grid_sample = node(
    "GridSample",
    sample,
    *_grids("linear", "cubic"),
    call((0, 2, 3, 4), (0, 2, 3, 2)),
    call((1, 1, 2, 3, 4), drawn((1, 2, 2, 2, 3), -1.2, 1.2)),
    call((1, 1, 2, 3, 4), drawn((1, 2, 2, 2, 3), -1.2, 1.2), mode="nearest"),
    since=20,
    **_FLOATING,
)


@definition
def picked(x: Array, grid: Array, *, align_corners: int, mode: str, padding_mode: str) -> Array:
    """The nearest element of each place, whatever it is: torch samples the elements' numbers."""
    numbers = torch.arange(x[0, 0].size, dtype=torch.float64).reshape(1, 1, *x.shape[2:])
    places = F.grid_sample(numbers.expand(len(x), -1, -1, -1), torch.from_numpy(grid), mode, padding_mode,
                           bool(align_corners)).numpy().astype(int)  # fmt: skip
    return np.stack([image.reshape(len(image), -1)[:, place[0]] for image, place in zip(x, places, strict=True)])


grid_sample_of_others = node(
    "GridSample",
    picked,
    call((1, 2, 3, 4), drawn((1, 2, 3, 2), -1.2, 1.2), mode="nearest", padding_mode="border"),
    usual={"T2": "float"},
    where=lambda types: not _is_number(types),
    exact=True,
)
grid_sample_of_integers = node(
    "GridSample",
    sample,
    call((1, 2, 3, 4), drawn((1, 2, 3, 2), -0.9, 0.9), mode="nearest"),
    usual={"T2": "float"},
    where=lambda types: "int" in types["T1"],
)


def make_grid(theta: torch.Tensor, size: torch.Tensor, align_corners: int) -> torch.Tensor:
    sizes = size.tolist()
    if not len(theta):
        return theta.new_zeros((0, *sizes[2:], len(sizes) - 2))
    return F.affine_grid(theta, sizes, bool(align_corners))


affine_grid = node(
    "AffineGrid",
    make_grid,
    call((2, 2, 3), [2, 1, 3, 4]),
    call((0, 2, 3), [0, 1, 3, 4]),
    call((2, 2, 3), [2, 1, 3, 4], align_corners=1),
    call((1, 3, 4), [1, 2, 2, 3, 4]),
    call((1, 3, 4), [1, 2, 2, 3, 4], align_corners=1),
    low=-1.0,
    high=1.0,
)

# --- boxes ------------------------------------------------------------------------------------------------------------


def _overlap(one: Array, other: Array) -> float:
    """The area that two boxes share, as a part of that which either has."""
    lows, highs = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    shared = float(np.prod(np.maximum(highs - lows, 0)))
    areas = [float(np.prod(each[2:] - each[:2])) for each in (one, other)]
    return shared / (sum(areas) - shared) if shared else 0.0


@definition
def chosen_boxes(
    boxes: Array, scores: Array, most: Any = None, overlap: Any = None, least: Any = None, *, center_point_box: int = 0
) -> Array:
    """The best box of each class, without those that overlap with a better one, and so on."""
    found: list[tuple[int, int, int]] = []
    limit = 0 if most is None else int(np.asarray(most).reshape(()))
    threshold = 0.0 if overlap is None else float(np.asarray(overlap).reshape(()))
    if center_point_box:
        half = boxes[..., 2:] / 2
        corners = np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    else:
        pairs = boxes[..., :2], boxes[..., 2:]
        corners = np.concatenate([np.minimum(*pairs), np.maximum(*pairs)], -1)
    for batch, class_ in np.ndindex(*scores.shape[:2]):
        order = np.argsort(-scores[batch, class_], kind="stable")
        kept: list[int] = []
        for box in order:
            if least is not None and scores[batch, class_, box] <= float(np.asarray(least).reshape(())):
                continue
            if len(kept) < limit and all(
                _overlap(corners[batch, box], corners[batch, each]) <= threshold for each in kept
            ):
                kept.append(int(box))
        found += [(batch, class_, box) for box in kept]
    return np.array(found, np.int64).reshape(-1, 3)


_BOXES = [[[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, -0.1, 1.0, 0.9], [0.0, 10.0, 1.0, 11.0],
           [0.0, 10.1, 1.0, 11.1], [0.0, 100.0, 1.0, 101.0]]]  # fmt: skip
_CENTRES = [[[0.5, 0.5, 1.0, 1.0], [0.5, 0.6, 1.0, 1.0], [0.5, 0.4, 1.0, 1.0], [0.5, 10.5, 1.0, 1.0]]]
_SCORES = [[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]]
non_max_suppression = node(
    "NonMaxSuppression",
    chosen_boxes,
    call(_BOXES, _SCORES, [3], [0.5], [0.0]),
    call((1, 0, 4), (1, 1, 0), [3], [0.5], [0.0]),
    call(_BOXES, _SCORES, [3], [0.5], [0.4]),
    call(_BOXES, _SCORES, [2], [0.5]),
    call(_BOXES, _SCORES, [30], [0.95]),
    call(_BOXES, _SCORES),
    call(_CENTRES, [[[0.9, 0.75, 0.6, 0.95]]], [3], [0.5], center_point_box=1),
    call(_BOXES, [[*_SCORES[0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]], [2], [0.5], [0.0]),
    call([[[1.0, 1.0, 0.0, 0.0], [0.0, 0.1, 1.0, 1.1]]], [[[0.9, 0.8]]], [2], [0.5]),
)

# --- files ------------------------------------------------------------------------------------------------------------

_PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 13


def _bmp() -> bytes:
    """Rows from below, with blue first, filled up to four bytes."""
    rows = b"".join(row[:, ::-1].tobytes() + b"\0" * 3 for row in _PIXELS[::-1])
    header = b"BM" + (54 + len(rows)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    sizes = b"".join(each.to_bytes(4, "little") for each in (40, 3, 2))
    rest = (
        (1).to_bytes(2, "little") + (24).to_bytes(2, "little") + bytes(4) + len(rows).to_bytes(4, "little") + bytes(16)
    )
    return header + sizes + rest + rows


def _png() -> bytes:
    """Without compression, whose result may be another one with another version of zlib."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    raw = b"".join(b"\0" + row.tobytes() for row in _PIXELS)
    stored = b"\x78\x01\x01" + len(raw).to_bytes(2, "little") + (0xFFFF - len(raw)).to_bytes(2, "little") + raw
    header = (3).to_bytes(4, "big") + (2).to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", stored + zlib.adler32(raw).to_bytes(4, "big")) + chunk(b"IEND", b""))  # fmt: skip


def _ppm() -> bytes:
    return b"P6 3 2 255\n" + _PIXELS.tobytes()


@definition
def pixels(stream: Array, pixel_format: str) -> Array:
    """Those that the file was made of."""
    del stream
    if pixel_format == "Grayscale":
        return np.asarray(np.rint(_PIXELS @ np.array([0.299, 0.587, 0.114])))[..., None]
    return _PIXELS if pixel_format == "RGB" else _PIXELS[..., ::-1]


image_decoder = node(
    "ImageDecoder",
    pixels,
    *(call(np.frombuffer(made, np.uint8)) for made in (_bmp(), _png(), _ppm())),
    call(np.frombuffer(_png(), np.uint8), pixel_format="BGR"),
    call(np.frombuffer(_png(), np.uint8), pixel_format="RGB"),
)
