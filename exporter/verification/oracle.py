"""The oracle: the expected outputs, a tolerance for each of their elements, and the verdict on a runtime's outputs.

A fixed tolerance is too large for accurate operators, where it hides bugs, and too small for others. Here each element
of an output has its own tolerance, which depends on torch's own error from float64:

1. *centre*: the float64 result, if there is one. The runtime's error is its distance from the centre.
2. *noise*: the error that any correct evaluation in the cell's dtype may show.
   For an operator it is the sensitivity of the element: how far the float64 result changes if the inputs change by a
   unit in the last place with random signs. It is large under cancellation, and small for elementwise functions. It is
   multiplied by torch's own error in units of the sensitivity, at the worst element, because long sums and inner
   layers round more often than once for each input.
   For a model, which rounds thousands of times, it is torch's largest error over the output. A single element, such as
   the score of a classifier, can be right by chance: for outputs of few elements, torch's errors for similar inputs
   count too.
3. *tolerance*: `NOISE_FACTOR` times the noise; at least `FLOOR_ULPS` units in the last place of the element, and
   `TYPICAL_ULPS` units of the output's typical element or of 1, whichever is less. The latter is for small elements
   that are computed from larger numbers: onnxruntime's Elu is exp(x) - 1, and torch's is expm1.
4. A change far larger than the element is a jump (`floor` next to an integer), not noise, and is not counted. If
   torch's own result is a jump away from the float64 result, torch's result is the centre.
   It is no jump if the element changes less where the inputs do: where numbers cancel, as in the norm of a constant
   image, the change is large beside an element of 0, and is noise. Neither is torch's own error a jump if the element
   has none in float64, as with the divergence of equal distributions; its errors for similar inputs then count too.
   Where torch's error is large, and larger than it becomes if each operator is as wrong as it may be, a runtime may be
   as wrong, or right: thousands of numbers that a kernel adds up in bfloat16 one by one come to 256.
5. Without a float64 result, the tolerance is that of the dtype, around torch's result. The same holds for elements
   where float64 gives NaN or infinity and torch a number. A declared tolerance replaces all of these; for float16 and
   bfloat16 only where it is larger.

The following must always be equal: the number of outputs, dtypes, shapes, ints, booleans, and the positions of NaN and
infinities. The sign of a zero must be equal if it does not depend on rounding, that is if float64 and every change of
the inputs give the same zero as torch.

Most outputs are so close to torch's that they are within every tolerance that these rules may give. `is_surely_right`
tells so without a run in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from onnx_parity.exporter.arrays import BFLOAT16, EIGHT_BITS, Array, Float64Array, Mask, epsilon, is_float, ulp

__all__ = [
    "EXACT_HEADROOM",
    "FALLBACK",
    "JUMP",
    "LESS",
    "Distance",
    "Expected",
    "Probes",
    "Verdict",
    "expect",
    "is_surely_right",
    "judge",
    "least_tolerance",
    "typical_magnitude",
]

#: The headroom of an exact result.
EXACT_HEADROOM = 1e9
NOISE_FACTOR = 16.0
FLOOR_ULPS = 8.0
TYPICAL_ULPS = 2.0
#: How much further than torch a runtime may be from the float64 result where torch is far from it.
_FURTHER = 1.25
#: The factor in rule 2 is at most this, so that one element with a large error does not excuse all others.
MOST_ROUNDINGS = 64.0
#: By which share of the other changes inputs are changed to tell noise from a jump.
LESS = 1 / 8
#: A change that becomes this share of itself then is noise: 1/8 where it is linear, 0.35 at a square root of 0, 1/64
#: where it is quadratic. A jump stays what it is, or vanishes.
_SHARES_OF_NOISE = (LESS**3, 0.5)
#: Each tolerance is at least `FLOOR_ULPS` units, and at least `NOISE_FACTOR` times torch's own error from float64. So
#: it includes what is this share of `FLOOR_ULPS` units away from torch's result; half of that, because the units are
#: those of the float64 result, which may have the next lower exponent.
_SURELY_NEAR = 0.5 * (1 - 1 / NOISE_FACTOR)
#: A change by more than this share of the element (or of the output's typical element) is a jump.
JUMP = {np.dtype(np.float16): 0.1, BFLOAT16: 0.5, np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-9}
#: The smallest and largest positive numbers that JSON can represent.
_SMALLEST, _LARGEST = float(np.finfo(np.float64).smallest_subnormal), float(np.finfo(np.float64).max)
#: Relative and absolute tolerance without a float64 result. The figures are those of `torch.testing.assert_close`.
FALLBACK = {
    np.dtype(np.float16): (1e-3, 1e-5),
    BFLOAT16: (1.6e-2, 1e-5),
    np.dtype(np.float32): (1.3e-6, 1e-5),
    np.dtype(np.float64): (1e-7, 1e-7),
    # One unit in the last place.
    **{each: (epsilon(each), float(ulp(np.zeros(()), each))) for each in EIGHT_BITS},
}


class Expected(msgspec.Struct, frozen=True):
    """One expected output. It is computed once for an input set, and used at every opset."""

    #: torch's result, in the cell's dtype.
    value: Array
    #: For floats, for each element: what errors are measured from, the tolerance, and one unit in the last place.
    centre: Float64Array | None = None
    tolerance: Float64Array | None = None
    ulp: Float64Array | None = None
    #: The elements that are zeros whose sign must be equal; None if there are none.
    zeros: Mask | None = None


class Probes(msgspec.Struct, frozen=True):
    """What tells noise from jumps."""

    #: The float64 results for inputs that are changed, and that are changed by `LESS` as much.
    changes: Sequence[tuple[Float64Array, Float64Array]]
    #: torch's errors for similar inputs.
    errors: Sequence[Float64Array]
    #: The float64 results where each operator is as wrong as it may be.
    inexact: Sequence[Float64Array] = ()


class Distance(msgspec.Struct, frozen=True):
    """The distance of the runtime's outputs from the expected ones, for the worst output."""

    max_abs: float | None
    max_rel: float | None
    #: Quantiles of the error in units in the last place of the output's dtype.
    ulp_p50: float
    ulp_p99: float
    ulp_max: float
    #: Tolerance divided by error at the worst element, at most `EXACT_HEADROOM`. Below 1 the output is wrong.
    headroom: float
    #: The tolerance at the worst element.
    tolerance: float
    #: The output, and the position in it, with the smallest headroom.
    output: int
    index: tuple[int, ...]
    #: The two values there. JSON has neither NaN nor infinities: None represents NaN, the largest float infinity.
    got: float | None
    expected: float | None


class Verdict(msgspec.Struct, frozen=True):
    """Whether a runtime's outputs are correct, and their distance from the expected ones."""

    passed: bool
    #: One line for a reader that describes the worst element. Empty if the outputs are correct.
    detail: str
    metrics: Distance | None


def expect(
    value: Array,
    exact: Float64Array | None,
    moved: Sequence[Float64Array] = (),
    *,
    moved_by: float = 0.0,
    rounded_by: float = 0.0,
    nearby: Sequence[Float64Array] = (),
    coarse: Float64Array | None = None,
    probe: Callable[[], Probes] | None = None,
    partly: bool = False,
    declared: float | None = None,
    signed_zeros: bool = True,
) -> Expected:
    """The expected output, from torch's `value`, the `exact` result in float64, and the float64 results for `moved`
    inputs.

    `rounded_by` is the precision of the narrowest floats that are computed with inside.
    `moved_by` is the relative size of the inputs' change. For an output of a wider dtype than the inputs it is scaled
    down. Without `moved`, the noise is torch's largest error over the output (rule 2 above, models), and over `nearby`,
    its errors for similar inputs. `coarse` is the float32 result for a float64 `value`. Its scaled error is used
    as torch's own. `probe` is called if a change is large enough to be a jump, to find out whether it is (rule 4).

    `partly` tells that `moved` are some of the changes, or none, that rule 2 for operators needs. The tolerance is then
    at most what it becomes with all of them.
    """
    if not is_float(value.dtype):
        return Expected(value)
    in_torch = value.astype(np.float64)
    if exact is None or exact.shape != value.shape or value.dtype in EIGHT_BITS:
        return _within(value, in_torch, *((declared, declared) if declared else FALLBACK[value.dtype]))
    finite = np.isfinite(in_torch) & np.isfinite(exact)
    centre = np.where(finite, exact, in_torch)
    narrow = epsilon(value.dtype) > epsilon(np.dtype(np.float32))
    if declared is not None and not narrow:
        return _within(value, centre, declared, declared)
    with np.errstate(invalid="ignore", over="ignore"):
        own_error = np.where(finite, np.abs(in_torch - centre), 0.0)
        magnitude = np.where(finite, np.abs(centre), 0.0)
        typical = typical_magnitude(magnitude)
        jump = _largest_rounding(value.dtype, rounded_by) * np.maximum(magnitude, typical)
        scale = min(1.0, epsilon(value.dtype) / moved_by) if moved else 1.0
        movements = [scale * np.abs(other - exact) for other in moved if other.shape == exact.shape]
        jumped = own_error > np.maximum(jump, ulp(magnitude, value.dtype))
        steep = unexplained = np.zeros_like(centre)
        if probe is not None and (jumped.any() or any((movement > jump).any() for movement in movements)):
            probes = probe()
            largest = np.maximum.reduce([own_error, *(each for each in probes.errors if each.shape == exact.shape)])
            steep, jumps = _steepness(exact, probes, jump, scale, largest)
            own_error = np.where((largest > jump) & ~jumps, largest, own_error)
            jumped &= jumps & (own_error > MOST_ROUNDINGS * steep)
            if epsilon(value.dtype) >= rounded_by:
                is_far = (own_error > jump) & ~jumped & _is_unexplained(exact, probes.inexact, own_error)
                unexplained = np.where(is_far, _FURTHER / NOISE_FACTOR * own_error, 0.0)
                own_error = np.where(is_far, 0.0, own_error)
        centre = np.where(jumped, in_torch, centre)
        own_error = np.where(jumped, 0.0, own_error)
        if coarse is not None and value.dtype == np.float64 and coarse.shape == exact.shape:
            error = np.abs(coarse - exact) * (epsilon(value.dtype) / epsilon(np.dtype(np.float32)))
            own_error = np.maximum(own_error, np.where(error <= jump, error, 0.0))
        unit = ulp(np.where(finite, centre, 0.0), value.dtype)
        for error in nearby if not moved else ():
            if error.shape == exact.shape:
                is_noise = error <= np.maximum(jump, MOST_ROUNDINGS * steep)
                own_error = np.maximum(own_error, np.where(is_noise, error, 0.0))
        if partly:
            noise = np.maximum(_sensitivity(movements, steep, jump, unit), own_error) if moved else own_error
        else:
            noise = _noise(own_error, movements, steep, jump, unit)
        noise = np.maximum(noise, unexplained)
    zeros = _certain_zeros(value, (exact, *moved)) if signed_zeros and declared is None else None
    tolerance = np.maximum(NOISE_FACTOR * noise, _floor(unit, typical, value.dtype))
    alone = np.isfinite(in_torch) & ~finite
    if alone.any():
        plain = _within(value, in_torch, *FALLBACK[value.dtype])
        assert plain.tolerance is not None
        assert plain.ulp is not None
        tolerance, unit = np.where(alone, plain.tolerance, tolerance), np.where(alone, plain.ulp, unit)
    if declared is not None:
        tolerance = np.maximum(tolerance, declared * magnitude + declared)
    return Expected(value, centre, tolerance, unit, zeros)


def _floor(unit: Float64Array, typical: float, dtype: np.dtype[Any]) -> Float64Array:
    """The least tolerance of rule 3."""
    floor: Float64Array = np.maximum(FLOOR_ULPS * unit, TYPICAL_ULPS * ulp(np.array(min(typical, 1.0)), dtype))
    return floor


def least_tolerance(values: Float64Array, dtype: np.dtype[Any], typical: float = 0.0) -> Float64Array:
    """What an operator may be wrong by that returns these numbers in this dtype: as in rule 3, with the largest element
    for the typical one, or with a larger number. onnxruntime's sigmoid has an error that is the same over its whole
    range."""
    finite = np.where(np.isfinite(values), values, 0.0)
    return _floor(ulp(finite, dtype), float(np.abs(finite).max(initial=typical)), dtype)


def _largest_rounding(dtype: np.dtype[Any], rounded_by: float) -> float:
    """The share of an element up to which an error is taken for rounding, of which inner layers may do more."""
    of_halves = [JUMP[each] for each in (np.dtype(np.float16), BFLOAT16) if epsilon(each) <= rounded_by]
    return max([JUMP[dtype], *of_halves])


def _certain_zeros(value: Array, twins: Sequence[Float64Array]) -> Mask | None:
    """The elements that are zeros of the same sign in torch's result and in all its float64 counterparts."""
    zeros: Mask = value == 0
    for twin in twins:
        if not zeros.any():
            return None
        if twin.shape == value.shape:
            zeros &= (twin == 0) & (np.signbit(twin) == np.signbit(value))
    return zeros


def typical_magnitude(values: Array) -> float:
    """The median of the magnitudes of those elements that are finite and not 0; 0 if there are none."""
    magnitude = np.abs(values[np.isfinite(values) & (values != 0)].astype(np.float64))
    return float(np.median(magnitude)) if magnitude.size else 0.0


def _steepness(
    exact: Float64Array, probes: Probes, jump: Float64Array, scale: float, error: Float64Array
) -> tuple[Float64Array, Mask]:
    """The changes that are as large as a jump, and are noise, 0 for other elements; and the elements that jump, far
    enough to be a reason for this error."""
    steep, jumps = np.zeros_like(exact), np.zeros(exact.shape, bool)
    least, most = _SHARES_OF_NOISE
    for moved, moved_less in probes.changes:
        if moved.shape == moved_less.shape == exact.shape:
            movement, less = scale * np.abs(moved - exact), scale * np.abs(moved_less - exact)
            is_noise = (less >= least * movement) & (less <= most * movement)
            is_large = movement > jump
            steep = np.maximum(steep, np.where(is_large & is_noise, movement, 0.0))
            jumps |= is_large & ~is_noise & (2 * movement >= error)
    return steep, jumps


def _is_unexplained(exact: Float64Array, inexact: Sequence[Float64Array], error: Float64Array) -> Mask:
    known = [np.abs(each - exact) for each in inexact if each.shape == exact.shape]
    return error > np.fmax.reduce(known) if known else np.zeros(exact.shape, bool)


def _sensitivity(
    movements: Sequence[Float64Array], steep: Float64Array, jump: Float64Array, unit: Float64Array
) -> Float64Array:
    # Half of the smallest number is zero, which cannot be a divisor.
    sensitivity: Float64Array = np.maximum(unit / 2, _SMALLEST)
    for movement in movements:
        sensitivity = np.maximum(sensitivity, np.where(movement <= jump, movement, 0.0))
    return np.maximum(sensitivity, steep)


def _noise(
    own_error: Float64Array,
    movements: Sequence[Float64Array],
    steep: Float64Array,
    jump: Float64Array,
    unit: Float64Array,
) -> Float64Array:
    if not own_error.size:
        return own_error
    if not movements:
        largest: Float64Array = np.maximum(own_error.max(), steep)
        return largest
    sensitivity = _sensitivity(movements, steep, jump, unit)
    roundings = min(max(float((own_error / sensitivity).max()), 1.0), MOST_ROUNDINGS)
    noise: Float64Array = np.maximum(sensitivity * roundings, own_error)
    return noise


def _within(value: Array, centre: Float64Array, relative: float, absolute: float) -> Expected:
    magnitude = np.where(np.isfinite(centre), np.abs(centre), 0.0)
    return Expected(value, centre, relative * magnitude + absolute, ulp(magnitude, value.dtype))


def is_surely_right(got: Array, value: Array, noise: float = 0.0) -> bool:
    """Whether a runtime's output is within every tolerance that torch's `value` can have: False does not mean that it
    is wrong. `noise` is what torch's results are known to be wrong by, as a share of the typical element.
    """
    if got.dtype != value.dtype or got.shape != value.shape:
        return False
    same = got == value
    if (same & ((value != 0) | (np.signbit(got) == np.signbit(value)))).all() if is_float(value.dtype) else same.all():
        return True
    if value.dtype not in (np.float32, np.float64):
        return False
    finite = np.isfinite(value)
    both_nan = np.isnan(got) & np.isnan(value)
    if not (np.isfinite(got) | ~finite).all() or not (finite | same | both_nan).all():
        return False
    if ((value == 0) & (got == 0) & (np.signbit(got) != np.signbit(value))).any():
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        if (np.abs(got - value) <= _SURELY_NEAR * FLOOR_ULPS * epsilon(value.dtype) / 2 * np.abs(value)).all():
            return True  # A unit in the last place is at least half of this share of the element.
    wide = np.where(finite, value, 0.0).astype(np.float64)
    typical = typical_magnitude(value)
    floor = _floor(ulp(wide, value.dtype), typical, value.dtype)
    near = np.maximum(_SURELY_NEAR * floor, NOISE_FACTOR * _SURELY_NEAR * noise * typical)
    return bool((np.abs(np.where(finite, got, 0.0) - wide) <= near).all())


def judge(outputs: Sequence[object], expected: Sequence[Expected]) -> Verdict:
    """Compare a runtime's outputs with the expected ones."""
    if len(outputs) != len(expected):
        return Verdict(False, f"{_count(len(outputs))} from the runtime, {_count(len(expected))} from torch", None)
    pairs = zip(outputs, expected, strict=True)
    verdicts = [_judge_output(number, got, want) for number, (got, want) in enumerate(pairs)]
    if not verdicts:
        return Verdict(True, "", None)
    for verdict in verdicts:
        if not verdict.passed:
            return verdict
    return min(verdicts, key=lambda verdict: verdict.metrics.headroom if verdict.metrics else EXACT_HEADROOM)


def _judge_output(number: int, got: object, want: Expected) -> Verdict:
    value = want.value
    if not isinstance(got, np.ndarray):
        return Verdict(False, f"output {number} is {type(got).__name__} from the runtime, a tensor from torch", None)
    if got.dtype != value.dtype:
        return Verdict(False, f"output {number} is {got.dtype} from the runtime, {value.dtype} from torch", None)
    if got.shape != value.shape:
        return Verdict(False, f"output {number} has shape {got.shape} from the runtime, {value.shape} from torch", None)
    if want.zeros is not None:
        flipped = want.zeros & (got == 0) & (np.signbit(got) != np.signbit(value))
        if flipped.any():
            return _different(number, got, value, flipped, "the sign of zero differs")
    unlike = got != value
    if not unlike.any():
        return Verdict(True, "", _exact(number, value))
    if want.centre is None or want.tolerance is None or want.ulp is None:
        # NaN is what differs from itself; numpy's isnan does not know every dtype that has it.
        unlike &= (got == got) | (value == value)
        if unlike.any():
            return _different(number, got, value, unlike, "differs")
        return Verdict(True, "", _exact(number, value))
    return _judge_floats(number, got, want.value, want.centre, want.tolerance, want.ulp)


def _judge_floats(
    number: int, got: Array, value: Array, centre: Float64Array, tolerance: Float64Array, unit: Float64Array
) -> Verdict:
    wide = got.astype(np.float64)
    finite = np.isfinite(wide)
    should_be_finite = np.isfinite(value)
    if not finite.all() or not should_be_finite.all():
        both_nan = np.isnan(wide) & np.isnan(value)
        unlike = ~(finite & should_be_finite) & (got != value) & ~both_nan
        if unlike.any():
            return _different(number, got, value, unlike, "NaN and infinities differ")
    with np.errstate(over="ignore", invalid="ignore"):
        # If the bits are equal there is no error, however far both are from float64.
        error = np.where((got == value) | ~finite, 0.0, np.minimum(np.abs(wide - centre), _LARGEST))
        ratio = np.minimum(error / tolerance, _LARGEST)
        ulps = np.minimum(error / unit, _LARGEST).ravel()
    worst = int(ratio.argmax())
    flat_error = error.ravel()
    middle, high = (ulps.size - 1) // 2, (ulps.size - 1) * 99 // 100
    ranked = np.partition(ulps, (middle, high))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error > 0, error / np.abs(centre), 0.0)
    worst_ratio = float(ratio.flat[worst])
    metrics = Distance(
        max_abs=float(flat_error.max()),
        max_rel=_storable(float(relative.max())),
        ulp_p50=float(ranked[middle]),
        ulp_p99=float(ranked[high]),
        ulp_max=float(ulps.max()),
        headroom=min(1.0 / worst_ratio, EXACT_HEADROOM) if worst_ratio else EXACT_HEADROOM,
        tolerance=float(tolerance.flat[worst]),
        output=number,
        index=_place(worst, got.shape),
        got=_storable(float(wide.flat[worst])),
        expected=_storable(float(value.flat[worst])),
    )
    if worst_ratio <= 1.0:
        return Verdict(True, "", metrics)
    detail = (
        f"output {number} at {metrics.index}: runtime {wide.flat[worst]:.9g}, torch {float(value.flat[worst]):.9g}; "
        f"error {flat_error[worst]:.1e}, tolerance {metrics.tolerance:.1e}, headroom {metrics.headroom:.4f}"
        f"{_share(ratio > 1.0)}"
    )
    if tolerance.flat[worst] < unit.flat[worst] / 2:
        detail += f"; the tolerance, which was declared, is less than {got.dtype} can tell numbers apart there"
    return Verdict(False, detail, metrics)


def _different(number: int, got: Array, value: Array, unlike: Any, how: str) -> Verdict:
    """The verdict of an exact comparison that failed: of ints, booleans, or the positions of NaN and infinities."""
    first = int(np.asarray(unlike).ravel().argmax())
    ours, theirs = got.flat[first], value.flat[first]
    apart = None if isinstance(theirs, str | complex) else abs(float(ours) - float(theirs))
    index = _place(first, got.shape)
    metrics = Distance(
        max_abs=None if apart is None else _storable(apart),
        max_rel=None if apart is None else _storable(apart / (abs(float(theirs)) or 1.0)),
        ulp_p50=0.0,
        ulp_p99=0.0,
        ulp_max=0.0,
        headroom=0.0,
        tolerance=0.0,
        output=number,
        index=index,
        got=_number(ours),
        expected=_number(theirs),
    )
    detail = f"output {number} at {index}: runtime {ours}, torch {theirs}; {how}{_share(np.asarray(unlike))}"
    return Verdict(False, detail, metrics)


def _exact(number: int, value: Array) -> Distance:
    """The distance of an output that is bit for bit torch's. The first element is given as the worst."""
    first = _number(value.flat[0]) if value.size else 0.0
    return Distance(
        max_abs=0.0,
        max_rel=0.0,
        ulp_p50=0.0,
        ulp_p99=0.0,
        ulp_max=0.0,
        headroom=EXACT_HEADROOM,
        tolerance=0.0,
        output=number,
        index=(0,) * value.ndim,
        got=first,
        expected=first,
    )


def _number(element: Any) -> float | None:
    """An element as a number; None for a string, or for a complex number, which is none for JSON."""
    return None if isinstance(element, str | complex) else _storable(float(element))


def _storable(value: float) -> float | None:
    """A number for JSON, which has neither NaN nor infinities: None for NaN, the largest float for an infinity."""
    return None if np.isnan(value) else min(max(value, -_LARGEST), _LARGEST)


def _place(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(each) for each in np.unravel_index(flat, shape))


def _share(wrong: Any) -> str:
    """How many elements are wrong, as an addition to a message; empty for a single one."""
    count = int(wrong.sum())
    return f"; {count} of {wrong.size} elements" if count > 1 else ""


def _count(number: int) -> str:
    return f"{number} output" if number == 1 else f"{number} outputs"
