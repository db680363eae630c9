"""Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, call, definition, node


def _as_pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1)


def _as_complex(x: Array) -> Array:
    return x[..., 0] + 1j * (x[..., 1] if x.shape[-1] == 2 else 0)


def _transformed(x: Array, length: Any, axis: int, inverse: int, onesided: int) -> Array:
    """The last axis holds the real and the imaginary part, or the real one alone."""
    place = axis if axis >= 0 else axis + x.ndim
    number = None if length is None else int(length)
    if inverse and onesided:
        return np.fft.irfft(_as_complex(x), number, place)[..., None]
    if inverse:
        return _as_pairs(np.fft.ifft(_as_complex(x), number, place))
    made = np.fft.fft(_as_complex(x), number, place)
    if onesided:
        made = np.take(made, range(made.shape[place] // 2 + 1), place)
    return _as_pairs(made)


@definition
def transform_17(x: Array, length: Any = None, *, axis: int, inverse: int, onesided: int) -> Array:
    return _transformed(x, length, axis, inverse, onesided)


@definition
def transform(x: Array, length: Any = None, axis: Any = None, *, inverse: int, onesided: int) -> Array:
    return _transformed(x, length, -2 if axis is None else int(axis), inverse, onesided)


_CALLS = (
    call((1, 8, 1)),
    call((1, 8, 2)),
    call((1, 8, 1), onesided=1),
    call((1, 8, 2), inverse=1),
    call((1, 5, 1), 8),
    call((1, 8, 1), 5),
    call((1, 7, 1), onesided=1),
    call((2, 4, 3, 1), axis=1),
    call((0, 8, 1)),
)
dft_17 = node("DFT", transform_17, *_CALLS, call((2, 3, 4, 1), axis=2), before=20, ulps_of_largest=32)
dft = node(
    "DFT",
    transform,
    *_CALLS,
    call((2, 3, 4, 1), axis=-3),
    call((1, 5, 2), inverse=1, onesided=1),
    usual={"T2": "int64"},
    since=20,
    ulps_of_largest=32,
)


@definition
def short_time_transform(
    signal: Array, frame_step: Array, window: Any = None, frame_length: Any = None, *, onesided: int
) -> Array:
    length = len(window) if frame_length is None else int(frame_length)
    shape = np.ones(length) if window is None else window
    whole = _as_complex(signal)
    starts = range(0, whole.shape[1] - length + 1, int(frame_step))
    frames = np.stack([whole[:, start : start + length] * shape for start in starts], 1)
    made = np.fft.fft(frames, axis=-1)
    return _as_pairs(made[..., : length // 2 + 1] if onesided else made)


stft = node(
    "STFT",
    short_time_transform,
    call((1, 16, 1), 4, (8,)),
    call((0, 16, 1), 4, (8,)),
    call((1, 16, 1), 4, None, 8),
    call((1, 16, 1), 3, (8,), 8, onesided=0),
    call((2, 12, 2), 4, (4,), onesided=0),
    usual={"T2": "int64"},
    ulps_of_largest=32,
)
