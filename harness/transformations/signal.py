"""Judges the results of a model that computes in fewer bits: by the ratio of signal to noise, with a declared floor.

The oracle's tolerances are those of the model's own dtype, which a quantised model cannot meet. Here each floating
output is judged as a whole: the signal is the expected output, the noise its difference from the result, and the ratio
of their powers in dB must be at least the floor. Dtypes, shapes, integers, booleans, and the positions of NaN and
infinities must be equal, as everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from onnx_parity.exporter.arrays import Array, is_float
from onnx_parity.exporter.verification.oracle import EXACT_HEADROOM, Distance, Expected, Verdict, judge

__all__ = ["judge_by_signal", "signal_to_noise"]


def judge_by_signal(outputs: Sequence[object], expected: Sequence[Expected], floor: float) -> Verdict:
    """Compare a runtime's outputs with the expected ones, for a floor in dB."""
    if len(outputs) != len(expected):
        return judge(outputs, expected)
    verdicts = [_judge_output(number, *pair, floor) for number, pair in enumerate(zip(outputs, expected, strict=True))]
    wrong = next((verdict for verdict in verdicts if not verdict.passed), None)
    if wrong is not None or not verdicts:
        return wrong or Verdict(True, "", None)
    return min(verdicts, key=lambda verdict: verdict.metrics.headroom if verdict.metrics else EXACT_HEADROOM)


def signal_to_noise(got: Array, wanted: Array) -> float:
    """In dB; infinite if both are equal. Elements that are not finite in both are left out."""
    with np.errstate(all="ignore"):
        given, right = got.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(given) & np.isfinite(right)
        # Divided by the largest, so that no square overflows or vanishes.
        largest = float(np.abs(right[finite]).max(initial=0.0)) or 1.0
        signal = float(np.square(right[finite] / largest).sum())
        noise = float(np.square((given[finite] - right[finite]) / largest).sum())
    if noise == 0.0:
        return math.inf
    return 10.0 * math.log10(signal / noise) if signal > 0.0 and math.isfinite(noise) else -math.inf


def _judge_output(number: int, got: object, want: Expected, floor: float) -> Verdict:
    exactly = judge([got], [want])
    comparable = isinstance(got, np.ndarray) and (got.dtype, got.shape) == (want.value.dtype, want.value.shape)
    if exactly.passed or not comparable or not is_float(want.value.dtype):
        return _numbered(exactly, number)
    assert isinstance(got, np.ndarray)
    value = want.value
    unlike = (np.isfinite(got) != np.isfinite(value)) | (~np.isfinite(value) & (got != value) & ~_both_nan(got, value))
    if unlike.any():
        return _numbered(exactly, number)
    ratio = signal_to_noise(got, value)
    # Of a scalar, numpy's functions return numbers, which cannot be written into.
    error = np.asarray(np.abs(got.astype(np.float64) - value.astype(np.float64)))
    error[~np.isfinite(error)] = 0.0
    worst = int(error.argmax())
    rms = math.sqrt(
        float(np.square(value.astype(np.float64), where=np.isfinite(value), out=np.zeros(value.shape)).mean())
    )
    metrics = Distance(
        max_abs=float(error.max()),
        max_rel=None,
        ulp_p50=0.0,
        ulp_p99=0.0,
        ulp_max=0.0,
        headroom=min(10.0 ** min((ratio - floor) / 20.0, 9.0), EXACT_HEADROOM),
        tolerance=rms * 10.0 ** (-floor / 20.0),
        output=number,
        index=tuple(int(each) for each in np.unravel_index(worst, got.shape)),
        got=float(got.flat[worst]),
        expected=float(value.flat[worst]),
    )
    if ratio >= floor:
        return Verdict(True, "", metrics)
    detail = (
        f"output {number} has {ratio:.1f} dB of signal to noise, the floor is {floor:g} dB; the largest error is at "
        f"{metrics.index}: runtime {metrics.got:.9g}, torch {metrics.expected:.9g}"
    )
    return Verdict(False, detail, metrics)


def _both_nan(got: Array, value: Array) -> Array:
    return np.isnan(got.astype(np.float64)) & np.isnan(value.astype(np.float64))


def _numbered(verdict: Verdict, number: int) -> Verdict:
    """The verdict on a single output, with its number among all."""
    if number == 0:
        return verdict
    detail = verdict.detail.replace("output 0 ", f"output {number} ", 1)
    metrics = verdict.metrics
    if metrics is not None:
        metrics = replace(metrics, output=number)
    return Verdict(verdict.passed, detail, metrics)
