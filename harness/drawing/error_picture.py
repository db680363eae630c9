"""The errors of an output as a picture: a histogram in units in the last place, and where in the tensor they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnx_parity.exporter.arrays import Array, is_float
from onnx_parity.exporter.verification.oracle import Expected
from onnx_parity.harness.drawing.drawings import ErrorPicture

#: The bands of the histogram end with 0, 1, 2, 4 and so on units; the last one has everything above.
_BANDS = (0.0, *(2.0**power for power in range(25)))
_MOST_ROWS, _MOST_COLUMNS = 24, 48
#: The ratio for elements that must be equal and are not: no tolerance would be enough.
_UNEQUAL = 1e9


def error_picture(name: str, got: object, expected: Expected) -> ErrorPicture:
    value = expected.value
    kind = f"{value.dtype}({', '.join(map(str, value.shape))})"
    if not isinstance(got, np.ndarray) or got.dtype != value.dtype or got.shape != value.shape:
        return ErrorPicture(name, kind, [])
    with np.errstate(all="ignore"):
        unequal = (got != value) & ~(np.isnan(got) & np.isnan(value)) if is_float(value.dtype) else got != value
        if expected.centre is None or expected.tolerance is None or expected.ulp is None:
            ratio = np.where(unequal, _UNEQUAL, 0.0)
            return _picture(name, kind, [int((~unequal).sum()), *([0] * 24), int(unequal.sum())], 0, ratio)
        wide = got.astype(np.float64)
        odd = unequal & ~(np.isfinite(wide) & np.isfinite(value.astype(np.float64)))
        error = np.where(unequal & ~odd, np.abs(wide - expected.centre), 0.0)
        ulps = (error / expected.ulp)[~odd]
        ratio = np.where(odd, _UNEQUAL, np.minimum(error / expected.tolerance, _UNEQUAL))
    counts = np.bincount(np.searchsorted(_BANDS, ulps, side="left"), minlength=len(_BANDS) + 1)
    return _picture(name, kind, counts.tolist(), int(odd.sum()), ratio)


def _picture(name: str, kind: str, ulps: list[int], odd: int, ratio: Array) -> ErrorPicture:
    last_band = max((place for place, count in enumerate(ulps) if count), default=0)
    pooled, sizes = _pool(ratio)
    return ErrorPicture(name, kind, ulps[: last_band + 1], odd, pooled, sizes)


def _pool(ratio: Array) -> tuple[list[list[float]], tuple[int, int]]:
    """The largest ratio in each of at most `_MOST_ROWS` by `_MOST_COLUMNS` parts of the tensor."""
    if not ratio.size:
        return [], (1, 1)
    columns = ratio.shape[-1] if ratio.ndim else 1
    flat: Any = ratio.reshape(-1, columns)
    high, wide = math.ceil(flat.shape[0] / _MOST_ROWS), math.ceil(columns / _MOST_COLUMNS)
    flat = np.maximum.reduceat(flat, range(0, flat.shape[0], high), axis=0)
    flat = np.maximum.reduceat(flat, range(0, columns, wide), axis=1)
    return [[float(f"{number:.3g}") for number in row] for row in flat.tolist()], (wide, high)
