"""Operators that move, repeat, cut and join elements, and those that tell of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, call, definition, node, whole

# --- shapes -----------------------------------------------------------------------------------------------------------


@definition
def reshaped(x: Array, shape: Sequence[int], allowzero: int = 0) -> Array:
    """A size of 0 is that of the input, unless `allowzero` is set."""
    sizes = [x.shape[place] if size == 0 and not allowzero else int(size) for place, size in enumerate(shape)]
    return x.reshape(sizes)


reshape = node(
    "Reshape",
    reshaped,
    call((2, 3), [3, 2]),
    call((2, 3, 4), [0, -1]),
    call((2, 3), [-1]),
    call((1,), np.array([], np.int64)),
    call((), [1, 1]),
    call((0, 3), [3, 0], allowzero=1),
    call((0, 3), [0, 1, 3]),
    exact=True,
)


@definition
def flattened(x: Array, axis: int) -> Array:
    place = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:place])), int(np.prod(x.shape[place:])))


flatten = node(
    "Flatten",
    flattened,
    call((2, 3, 4)),
    call((2, 3, 4), axis=0),
    call((2, 3, 4), axis=3),
    call((2, 3, 4), axis=-1, since=11),
    call((1,)),
    call((0, 3)),
    exact=True,
)


@definition
def squeezed(x: Array, axes: Sequence[int] | None = None) -> Array:
    return np.squeeze(x, None if axes is None else tuple(int(axis) for axis in axes))


squeeze = node(
    "Squeeze",
    squeezed,
    call((1, 2, 1)),
    call((1, 2, 1), axes=[0]),
    call((1, 2, 1), axes=[-1], since=11),
    call((1, 1), axes=[0, 1]),
    call((1, 0), axes=[0]),
    exact=True,
)


@definition
def unsqueezed(x: Array, axes: Sequence[int]) -> Array:
    return np.expand_dims(x, tuple(int(axis) for axis in axes))


unsqueeze = node(
    "Unsqueeze",
    unsqueezed,
    call((2, 3), axes=[0]),
    call((2, 3), axes=[1, 3]),
    call((2, 3), axes=[-1], since=11),
    call((2,), axes=[2, 0], since=11),
    call((), axes=[0]),
    call((0, 3), axes=[1]),
    exact=True,
)


@definition
def shape_of(x: Array, start: int = 0, end: int | None = None) -> Array:
    return np.array(x.shape[start:end], np.int64)


shape = node(
    "Shape",
    shape_of,
    call((2, 3, 4)),
    call((2, 3, 4), start=1),
    call((2, 3, 4), start=-2, end=-1),
    call((2, 3, 4), end=9),
    call((2, 3, 4), start=2, end=1),
    call((1,)),
    call(()),
    call((0, 3)),
)
size = node("Size", definition(lambda x: np.array(x.size)), call((2, 3)), call(()), call((1,)), call((0, 3)))


@definition
def expanded(x: Array, shape: Sequence[int]) -> Array:
    """Either of the two shapes may be broadcast."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(size) for size in shape)))


expand = node(
    "Expand",
    expanded,
    call((3, 1), [2, 1, 4]),
    call((3, 1), [3, 4]),
    call((2, 3), [1]),
    call((), [2, 2]),
    call((1, 3), [0, 3]),
    call((0, 3), [2, 1, 1]),
    exact=True,
)

# --- order ------------------------------------------------------------------------------------------------------------


@definition
def transposed(x: Array, perm: Sequence[int] | None = None) -> Array:
    return np.transpose(x, perm)


transpose = node(
    "Transpose",
    transposed,
    call((2, 3)),
    call((2, 3, 4), perm=[1, 0, 2]),
    call((2, 1, 3, 2), perm=[3, 1, 0, 2]),
    call(()),
    call((0, 3)),
    exact=True,
)


@definition
def depth_to_space(x: Array, blocksize: int, mode: str = "DCR") -> Array:
    batch, depth, height, width = x.shape
    if mode == "DCR":
        parts = x.reshape(batch, blocksize, blocksize, depth // blocksize**2, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(batch, depth // blocksize**2, blocksize, blocksize, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(batch, depth // blocksize**2, height * blocksize, width * blocksize)


depth_to_space_ = node(
    "DepthToSpace",
    depth_to_space,
    call((1, 8, 2, 3), blocksize=2),
    call((1, 8, 2, 3), blocksize=2, mode="CRD"),
    call((2, 3, 1, 1), blocksize=1),
    call((0, 4, 2, 2), blocksize=2),
    exact=True,
)


@definition
def space_to_depth(x: Array, blocksize: int, mode: str = "DCR") -> Array:
    batch, depth, height, width = x.shape
    parts = x.reshape(batch, depth, height // blocksize, blocksize, width // blocksize, blocksize)
    moved = parts.transpose(0, 3, 5, 1, 2, 4) if mode == "DCR" else parts.transpose(0, 1, 3, 5, 2, 4)
    return moved.reshape(batch, depth * blocksize**2, height // blocksize, width // blocksize)


space_to_depth_ = node(
    "SpaceToDepth",
    space_to_depth,
    call((1, 2, 4, 6), blocksize=2),
    call((1, 2, 4, 6), blocksize=2, mode="CRD"),
    call((2, 3, 1, 1), blocksize=1),
    call((0, 2, 2, 2), blocksize=2),
    exact=True,
)


@definition
def reversed_(x: Array, lengths: Array, batch_axis: int, time_axis: int) -> Array:
    by_time = np.moveaxis(x, (batch_axis, time_axis), (0, 1)).copy()
    for row, length in zip(by_time, lengths, strict=True):
        row[: int(length)] = row[: int(length)][::-1].copy()
    return np.moveaxis(by_time, (0, 1), (batch_axis, time_axis))


reverse_sequence = node(
    "ReverseSequence",
    reversed_,
    # Each length that there may be.
    call((4, 5), [4, 0, 3, 1, 2]),
    call((4, 0), (0,)),
    call((3, 4), [4, 1, 2], batch_axis=0, time_axis=1),
    call((4, 2, 2), [3, 4]),
    call((1, 1), [1]),
    exact=True,
)

# --- joining and cutting ----------------------------------------------------------------------------------------------


@definition
def concatenated(*tensors: Array, axis: int) -> Array:
    return np.concatenate(tensors, axis)


concat = node(
    "Concat",
    concatenated,
    call((2, 3), (2, 1), axis=1),
    call((2, 3), (1, 3), (2, 3), axis=0),
    call((2, 3), axis=0),
    call((2, 3), (2, 3), axis=-1, since=11),
    call((0, 3), (2, 3), axis=0),
    call((0, 3), (0, 2), axis=1),
    exact=True,
)


@definition
def parts(
    x: Array, split: Sequence[int] | None = None, *, axis: int, outputs: Sequence[int], num_outputs: int | None = None
) -> tuple[Array, ...]:
    """Equal parts, of which the last may be smaller."""
    length = x.shape[axis]
    if split is None:
        number = num_outputs or len(outputs)
        size = -(-length // number)
        split = [min(size, length - size * place) for place in range(number)]
    return tuple(np.split(x, np.cumsum([int(size) for size in split])[:-1], axis))


split = node(
    "Split",
    parts,
    call((4, 2), outputs=[0, 1], before=18),
    call((2, 3), axis=1, outputs=[0, 1, 2], before=18),
    call((4, 2), num_outputs=2),
    call((5, 2), num_outputs=3),
    call((5, 2), split=[1, 4]),
    call((2, 5), split=[2, 1, 2], axis=1),
    call((2, 5), split=[2, 3], axis=-1, since=11),
    call((2, 2), split=[2], axis=0),
    call((2, 2), split=[0, 2], axis=0),
    call((0, 2), split=[1, 1], axis=1),
    exact=True,
)


@definition
def sliced(x: Array, starts: Sequence[int], ends: Sequence[int], axes: Any = None, steps: Any = None) -> Array:
    chosen = range(len(starts)) if axes is None else axes
    cuts = [slice(None)] * x.ndim
    for place, (axis, start, end) in enumerate(zip(chosen, starts, ends, strict=True)):
        step = 1 if steps is None else int(steps[place])
        # An end below the first element, which a negative step passes, is no index from the end.
        last = None if step < 0 and end < -x.shape[axis] else int(end)
        cuts[axis] = slice(int(start), last, step)
    return x[tuple(cuts)]


_FAR = 2**31 - 1
slice_ = node(
    "Slice",
    sliced,
    call((3, 4), starts=[1, 0], ends=[3, 2]),
    call((3, 4), starts=[1], ends=[-1], axes=[1]),
    call((3, 4), starts=[0], ends=[1000], axes=[0]),
    call((3, 4), starts=[-2], ends=[_FAR], axes=[1]),
    call((3, 4), starts=[2], ends=[1], axes=[0]),
    call((3, 4), starts=[3], ends=[0], axes=[1], steps=[-1]),
    call((3, 4), starts=[-1], ends=[-_FAR], axes=[-1], steps=[-2]),
    call((3, 4), starts=[0, 0], ends=[3, 4], axes=[1, 0], steps=[2, 2]),
    call((0, 4), starts=[0], ends=[2], axes=[0]),
    exact=True,
)


@definition
def repeated(x: Array, repeats: Sequence[int]) -> Array:
    return np.tile(x, [int(each) for each in repeats])


tile = node(
    "Tile",
    repeated,
    call((2, 3), repeats=[2, 1]),
    call((2, 3), repeats=[1, 3]),
    call((1,), repeats=[4]),
    call((2, 3), repeats=[0, 2]),
    call((0, 3), repeats=[2, 2]),
    call((), repeats=np.array([], np.int64)),
    exact=True,
)


@definition
def padded(
    x: Array,
    pads: Sequence[int],
    constant_value: Any = None,
    axes: Any = None,
    *,
    mode: str = "constant",
    value: float = 0.0,
) -> Array:
    """A negative number of elements is removed."""
    chosen = [int(axis) % x.ndim for axis in (range(x.ndim) if axes is None else axes)]
    before, after = [0] * x.ndim, [0] * x.ndim
    for place, axis in enumerate(chosen):
        before[axis], after[axis] = int(pads[place]), int(pads[place + len(chosen)])
    cuts = tuple(
        slice(max(-low, 0), size - max(-high, 0)) for low, high, size in zip(before, after, x.shape, strict=True)
    )
    widths = [(max(low, 0), max(high, 0)) for low, high in zip(before, after, strict=True)]
    if mode != "constant":
        return np.pad(x[cuts], widths, {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode])  # type: ignore[call-overload,no-any-return]
    filling = value if constant_value is None else constant_value
    filled = np.full([low + size + high for (low, high), size in zip(widths, x[cuts].shape, strict=True)],
                     "" if x.dtype.kind == "O" and constant_value is None else filling, x.dtype)  # fmt: skip
    filled[tuple(slice(low, low + size) for (low, _), size in zip(widths, x[cuts].shape, strict=True))] = x[cuts]
    return filled


_PADS = [0, 1, 2, 1]
pad = node(
    "Pad",
    padded,
    call((2, 3), pads=_PADS, mode="edge"),
    call((2, 3), pads=_PADS, value=1.5),
    call((3, 3), pads=_PADS, mode="reflect"),
    call((3, 3), pads=_PADS, mode="wrap"),
    call((2, 3), pads=_PADS, constant_value=whole((), 1, 3)),
    call((2, 3), pads=[1, 0, 0, 2], constant_value=whole((), 1, 3), axes=[1, 0]),
    exact=True,
    main="T",
)
pad_with_zeros = node(
    "Pad",
    padded,
    call((2, 3), pads=_PADS),
    call((2, 3), pads=[0, -1, 1, -1]),
    call((0, 3), pads=[1, 0, 1, 0]),
    call((2, 3), pads=[1, 2], axes=[-1]),
    # This type has no zero.
    where=lambda types: "float8e8m0" not in types["T"],
    exact=True,
    main="T",
)


@definition
def cropped_or_padded(x: Array, shape: Sequence[int], axes: Any = None) -> Array:
    """What is too much is cut at both ends, what is too little is 0; an odd one is at the end."""
    chosen = range(x.ndim) if axes is None else [int(axis) for axis in axes]
    for axis, wanted in zip(chosen, shape, strict=True):
        there, size = x.shape[axis], int(wanted)
        start = (there - size) // 2 if there > size else 0
        x = np.take(x, range(start, start + min(there, size)), axis)
        if there < size:
            widths = [(0, 0)] * x.ndim
            widths[axis] = ((size - there) // 2, size - there - (size - there) // 2)
            x = np.pad(x, widths, constant_values="" if x.dtype.kind == "O" else 0)
    return x


center_crop_pad = node(
    "CenterCropPad",
    cropped_or_padded,
    call((4, 3), [2, 5]),
    call((5, 3), [2, 3]),
    call((2, 3), [5], axes=[1]),
    call((2, 3), [4, 1], axes=[-1, 0]),
    call((3, 4), [2, 1]),
    call((0, 3), [2, 3]),
    exact=True,
)


@definition
def triangle(x: Array, k: Any = None, *, upper: int) -> Array:
    diagonal = 0 if k is None else int(k)
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    kept = columns - rows >= diagonal if upper else columns - rows <= diagonal
    return np.where(kept, x, "" if x.dtype.kind == "O" else x.dtype.type(0))


trilu = node(
    "Trilu",
    triangle,
    call((3, 4)),
    call((3, 4), upper=0),
    call((4, 3), k=1),
    call((2, 3, 3), k=-1, upper=0),
    call((3, 3), k=5),
    call((3, 3), k=-5),
    call((1, 1)),
    call((0, 3)),
    call((2, 0, 3)),
    exact=True,
)
identity = node(
    "Identity", definition(lambda x: x), call((2, 3)), call(()), call((1,)), call((0, 3)), main="V", exact=True
)
