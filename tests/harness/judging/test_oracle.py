"""The oracle detects faults, injected one at a time, and accepts right outputs."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import msgspec
import numpy as np
import pytest

from onnx_parity.exporter.arrays import BFLOAT16, Array, ulp
from onnx_parity.exporter.verification.oracle import (
    EXACT_HEADROOM,
    FLOOR_ULPS,
    MOST_ROUNDINGS,
    NOISE_FACTOR,
    Distance,
    Expected,
    expect,
    judge,
)

NAN, INF = float("nan"), float("inf")
EPS = 2.0**-23
EXACT = np.random.default_rng(0).normal(size=(2, 3, 4))
VALUE = EXACT.astype(np.float32)


def expected(value: Array = VALUE) -> list[Expected]:
    return [expect(value, value.astype(np.float64))]


def failure(outputs: list[object], wanted: list[Expected]) -> str:
    """What the oracle says is wrong; the test fails where it says nothing."""
    verdict = judge(outputs, wanted)
    assert not verdict.passed
    assert verdict.detail
    return verdict.detail


def changed(value: Array, index: tuple[int | slice, ...], to: object) -> Array:
    out = value.copy()
    out[index] = to
    return out


def metrics_of(got: Array, wanted: list[Expected]) -> Distance:
    metrics = judge([got], wanted).metrics
    assert metrics is not None
    return metrics


def test_the_same_bits_pass_with_nothing_to_spare() -> None:
    verdict = judge([VALUE.copy()], expected())
    assert verdict.passed
    assert verdict.metrics is not None
    assert (verdict.metrics.headroom, verdict.metrics.max_abs) == (EXACT_HEADROOM, 0.0)


def test_one_ulp_off_passes() -> None:
    assert judge([np.nextafter(VALUE, np.float32(INF))], expected()).passed
    assert judge([np.nextafter(VALUE, np.float32(-INF))], expected()).passed


def test_many_ulps_off_is_caught() -> None:
    off = VALUE.astype(np.float64) + 2 * FLOOR_ULPS * ulp(VALUE.astype(np.float64), VALUE.dtype)
    # Two elements are so small that this is less than two units in the last place of the others.
    assert failure([off.astype(np.float32)], expected()).endswith("; 22 of 24 elements")


def test_one_wrong_element_is_caught_and_named() -> None:
    wanted = [expect(np.ones((1, 2, 4, 4), np.float32), np.ones((1, 2, 4, 4)))]
    got = changed(np.ones((1, 2, 4, 4), np.float32), (0, 1, 3, 3), 0.75)
    assert failure([got], wanted) == (
        "output 0 at (0, 1, 3, 3): runtime 0.75, torch 1; error 2.5e-01, tolerance 9.5e-07, headroom 0.0000"
    )
    metrics = metrics_of(got, wanted)
    assert (metrics.index, metrics.got, metrics.expected, metrics.max_abs) == ((0, 1, 3, 3), 0.75, 1.0, 0.25)


def test_a_wrong_dtype_is_caught() -> None:
    assert failure([VALUE.astype(np.float64)], expected()) == "output 0 is float64 from the runtime, float32 from torch"


def test_a_broadcastable_wrong_shape_is_caught() -> None:
    ones = np.ones((2, 1), np.float32)
    assert failure([np.ones((2, 2), np.float32)], expected(ones)) == (
        "output 0 has shape (2, 2) from the runtime, (2, 1) from torch"
    )
    assert failure([np.ones((), np.float32)], expected(np.ones(1, np.float32))) == (
        "output 0 has shape () from the runtime, (1,) from torch"
    )


def test_a_missing_and_an_extra_output_are_caught() -> None:
    two = [*expected(), *expected()]
    assert failure([VALUE], two) == "1 output from the runtime, 2 outputs from torch"
    assert failure([VALUE, VALUE], expected()) == "2 outputs from the runtime, 1 output from torch"
    assert failure([], expected()) == "0 outputs from the runtime, 1 output from torch"


def test_what_is_no_tensor_is_caught() -> None:
    assert failure([[VALUE]], expected()) == "output 0 is list from the runtime, a tensor from torch"


def test_swapped_outputs_are_caught() -> None:
    other = VALUE[::-1].copy()
    assert failure([other, VALUE], [*expected(VALUE), *expected(other)]).startswith("output 0 at ")


@pytest.mark.parametrize(
    ("wrong", "right"), [(NAN, 1.5), (1.5, NAN), (INF, 1.5), (1.5, INF), (-INF, INF), (NAN, INF), (3.4e38, INF)]
)
def test_nan_and_infinity_must_be_where_they_are(wrong: float, right: float) -> None:
    value = changed(VALUE, (1, 2, 3), right)
    detail = failure([changed(VALUE, (1, 2, 3), wrong)], [expect(value, value.astype(np.float64))])
    assert detail == (
        f"output 0 at (1, 2, 3): runtime {np.float32(wrong)}, torch {np.float32(right)}; NaN and infinities differ"
    )


def test_nan_and_infinity_where_they_should_be_pass() -> None:
    value = np.array([NAN, INF, -INF, 1.0, 0.1], np.float32)
    assert judge([changed(value, (4,), np.nextafter(value[4], np.float32(1)))], expected(value)).passed


def test_values_that_json_lacks_are_storable() -> None:
    metrics = metrics_of(np.array([NAN], np.float32), expected(np.array([INF], np.float32)))
    assert metrics.got is None
    assert metrics.expected == np.finfo(np.float64).max


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (np.array([300 % 256], np.uint8), np.array([255], np.uint8)),
        (np.array([2**53 + 1]), np.array([2**53])),
        (np.array([True, False]), np.array([True, True])),
        (np.array([-1], np.int8), np.array([127], np.int8)),
    ],
)
def test_ints_and_booleans_are_exact(right: Array, wrong: Array) -> None:
    assert judge([right.copy()], [expect(right, None)]).passed
    assert failure([wrong], [expect(right, None)]).endswith("; differs")


def test_the_sign_of_a_zero_is_caught() -> None:
    value = np.array([-0.0, 0.0, 1.0], np.float32)
    assert judge([value.copy()], expected(value)).passed
    assert failure([np.abs(value)], expected(value)) == (
        "output 0 at (0,): runtime 0.0, torch -0.0; the sign of zero differs"
    )
    assert failure([np.array([-0.0, -0.0, 1.0], np.float32)], expected(value)) == (
        "output 0 at (1,): runtime -0.0, torch 0.0; the sign of zero differs"
    )
    assert failure([np.array(0.0, np.float32)], expected(np.array(-0.0, np.float32)))


def test_the_sign_of_a_zero_is_nobodys_where_float64_or_the_inputs_decide_otherwise() -> None:
    value, flipped = np.array([-0.0], np.float32), np.array([0.0], np.float32)
    rounded = expect(value, np.array([-1e-60]))
    cancelled = expect(value, np.array([-0.0]), [np.array([-0.0]), np.array([1e-9])], moved_by=EPS)
    turned = expect(value, np.array([-0.0]), [np.array([0.0])], moved_by=EPS)
    declared = expect(value, np.array([-0.0]), signed_zeros=False)
    for wanted in (rounded, cancelled, turned, declared, expect(value, None)):
        assert judge([flipped], [wanted]).passed


def test_off_by_one_ulp_is_caught_where_one_ulp_is_not_allowed() -> None:
    """The oracle allows a float rounding; what counts units shows each, and a declared bound of none allows none."""
    off = np.nextafter(VALUE, np.float32(INF))
    assert metrics_of(off, expected()).ulp_p50 == 1.0
    exact = [expect(VALUE, VALUE.astype(np.float64), declared=1e-12)]
    assert judge([VALUE.copy()], exact).passed
    assert failure([changed(VALUE, (0, 1, 2), off[0, 1, 2])], exact).startswith("output 0 at (0, 1, 2): runtime ")


def test_a_wrapped_uint8_is_caught_among_right_ones() -> None:
    right = np.array([250, 255, 0, 7], np.uint8)
    wrapped = right + np.uint8(1)
    saturated = np.minimum(right.astype(np.int64) + 1, 255).astype(np.uint8)
    assert failure([saturated], [expect(wrapped, None)]) == "output 0 at (1,): runtime 255, torch 0; differs"
    assert failure([wrapped], [expect(saturated, None)]) == "output 0 at (1,): runtime 0, torch 255; differs"


def test_right_empty_and_scalar_outputs_pass() -> None:
    for value in (np.zeros((0, 3), np.float32), np.zeros(0, np.int64), np.array(2.5, np.float32)):
        assert judge([value.copy()], [expect(value, value.astype(np.float64))]).passed
    assert judge([], []).passed
    assert failure([np.zeros((3, 0), np.float32)], expected(np.zeros((0, 3), np.float32))) == (
        "output 0 has shape (3, 0) from the runtime, (0, 3) from torch"
    )


def test_the_worst_output_is_the_one_reported() -> None:
    other = np.nextafter(VALUE, np.float32(INF))
    metrics = judge([VALUE, other], [*expected(), *expected()]).metrics
    assert metrics is not None
    assert metrics.output == 1
    assert 1.0 < metrics.headroom < EXACT_HEADROOM


def test_ulp_quantiles_count_units() -> None:
    value = np.full(1000, 1.0, np.float32)
    got = changed(value, (slice(5),), np.float32(1) + 3 * np.finfo(np.float32).eps)
    metrics = metrics_of(got, expected(value))
    assert (metrics.ulp_p50, metrics.ulp_p99, metrics.ulp_max) == (0.0, 0.0, 3.0)


def test_the_error_is_measured_from_float64_and_not_from_torch() -> None:
    """A runtime on the other side of the truth than torch is twice as far from torch as from the truth."""
    exact = np.array([1.0])
    torch_says = np.array([1.0 + 6e-7], np.float32)
    runtime_says = np.array([1.0 - 6e-7], np.float32)
    metrics = metrics_of(runtime_says, [expect(torch_says, exact)])
    assert metrics.max_abs == pytest.approx(6e-7, rel=0.1)


def allowed(wanted: Expected) -> Array:
    assert wanted.tolerance is not None
    return wanted.tolerance


def test_an_element_is_allowed_torchs_own_error_times_a_factor() -> None:
    exact = np.array([1.0, 1.0])
    torch_says = np.array([1.0 + 1e-4, 1.0], np.float32)
    tolerance = allowed(expect(torch_says, exact, [exact], moved_by=EPS))
    assert tolerance[0] == pytest.approx(NOISE_FACTOR * 1e-4, rel=0.02)
    assert tolerance[1] == NOISE_FACTOR * MOST_ROUNDINGS * 2.0**-24


def test_an_element_is_allowed_what_its_inputs_move_it_by() -> None:
    """The first element is the small difference of large numbers, the others are plain functions of their input."""
    exact = np.array([1e-2, 1.0, 1.0])
    moved = exact + np.array([1e-6, 0.0, 0.0])
    tolerance = allowed(expect(exact.astype(np.float32), exact, [exact, moved], moved_by=EPS))
    assert tolerance[0] == pytest.approx(NOISE_FACTOR * 1e-6, rel=0.01)
    assert tolerance[1] == FLOOR_ULPS * 2.0**-23


def test_a_small_element_is_allowed_two_ulps_of_the_typical_one() -> None:
    """exp(x) - 1 for a small x is off by a unit in the last place of 1, whatever is left of it."""
    exact = np.array([1e-6, 1.0, 1.0])
    wanted = [expect(exact.astype(np.float32), exact, [exact], moved_by=EPS)]
    assert judge([changed(exact.astype(np.float32), (0,), 1e-6 + 2e-7)], wanted).passed
    failure([changed(exact.astype(np.float32), (0,), 1e-6 + 3e-7)], wanted)


def test_an_element_where_torch_was_lucky_is_allowed_what_the_others_need() -> None:
    """A long sum: torch is off by thirty movements of the inputs somewhere, and could have been anywhere."""
    exact = np.ones(100)
    torch_says = changed(exact.astype(np.float32), (0,), 1.0 + 3e-5)
    tolerance = allowed(expect(torch_says, exact, [exact + 1e-6], moved_by=EPS))
    assert tolerance.min() == pytest.approx(NOISE_FACTOR * 3e-5, rel=0.01)


def test_an_output_in_float64_of_inputs_in_float32_is_moved_by_noise_of_float64() -> None:
    exact = np.array([1.0])
    tolerance = allowed(expect(exact, exact, [exact + 1e-5], moved_by=EPS))
    assert tolerance[0] == pytest.approx(NOISE_FACTOR * 1e-5 * 2.0**-52 / 2.0**-23)


def test_a_jump_is_no_noise() -> None:
    """floor(2.0) with its input moved is 1.0: that must not allow an error of sixteen."""
    exact = np.array([2.0, 5.0, 7.0])
    wanted = [expect(exact.astype(np.float32), exact, [np.array([1.0, 5.0, 7.0])], moved_by=EPS)]
    assert failure([np.array([1.0, 5.0, 7.0], np.float32)], wanted).startswith("output 0 at (0,): runtime 1, torch 2;")


def test_where_torch_jumps_away_from_float64_torch_is_right() -> None:
    torch_says = np.array([3.0, 5.0, 7.0], np.float32)
    wanted = [expect(torch_says, np.array([2.0, 5.0, 7.0]))]
    assert judge([torch_says.copy()], wanted).passed
    assert failure([np.array([2.0, 5.0, 7.0], np.float32)], wanted).startswith("output 0 at (0,): runtime 2, torch 3;")


def test_a_models_noise_is_the_largest_over_its_output() -> None:
    exact = np.ones(100)
    torch_says = changed(exact.astype(np.float32), (0,), 1.0 + 1e-6)
    assert allowed(expect(torch_says, exact)).min() == pytest.approx(NOISE_FACTOR * 1e-6, rel=0.1)


def test_where_float64_gives_no_number_and_torch_does_the_dtypes_own_tolerance_holds() -> None:
    value = np.array([0.75, 0.5, np.nan], np.float32)
    expected = expect(value, np.array([np.nan, 0.5, np.nan]))
    assert judge([value + np.float32(6e-8)], [expected]).passed
    off = judge([np.array([0.7501, 0.5, np.nan], np.float32)], [expected])
    assert not off.passed
    assert off.metrics is not None
    assert off.metrics.index == (0,)
    assert off.metrics.tolerance == pytest.approx(1.3e-6 * 0.75 + 1e-5)


def test_a_declared_tolerance_replaces_the_oracles() -> None:
    wanted = [expect(VALUE, EXACT, declared=1e-2)]
    assert judge([VALUE * np.float32(1.005)], wanted).passed
    assert not judge([VALUE * np.float32(1.1)], wanted).passed


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("with_exact", [True, False])
def test_every_floating_dtype_passes_its_rounding_and_catches_a_percent_of_ten(
    dtype: type[np.generic], with_exact: bool
) -> None:
    value = EXACT.astype(dtype)
    wanted = [expect(value, EXACT if with_exact else None)]
    assert judge([value.copy()], wanted).passed
    failure([(value.astype(np.float64) * 1.1).astype(dtype)], wanted)


def test_one_ulp_of_every_format() -> None:
    for dtype, unit in ((np.float16, 2.0**-10), (np.float32, 2.0**-23), (np.float64, 2.0**-52)):
        assert ulp(np.array([1.0, 1.999, 2.0]), np.dtype(dtype)).tolist() == [unit, unit, 2 * unit]
        assert ulp(np.array([0.0]), np.dtype(dtype)).tolist() == [float(np.finfo(dtype).smallest_subnormal)]
    assert ulp(np.array([1.0]), BFLOAT16).tolist() == [2.0**-7]


@pytest.mark.parametrize(
    "fault",
    [
        lambda x: x[..., ::-1],
        lambda x: np.roll(x, 1, axis=0),
        lambda x: -x,
        np.zeros_like,
        lambda x: np.maximum(x, 0),
        lambda x: x.astype(np.float16).astype(np.float32),
        lambda x: x + np.float32(1e-4),
    ],
    ids=["reversed", "rolled", "negated", "zeros", "relu", "through float16", "shifted"],
)
def test_plausible_wrong_graphs_are_caught(fault: Callable[[Array], Array]) -> None:
    failure([np.ascontiguousarray(fault(VALUE))], expected())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_metrics_come_back_from_json_at_the_ends_of_the_range(dtype: type[np.floating]) -> None:
    largest = float(np.finfo(dtype).max)
    value = np.array([0.0, largest, -largest, 1.0, NAN, -INF], dtype)
    exact = value.astype(np.float64)
    wanted = [expect(value, exact, [exact], moved_by=EPS)]
    for wrong in (0.0, 1.0, -largest, largest):
        for place in range(4):
            verdict = judge([changed(value, (place,), wrong)], wanted)
            assert verdict.passed == (value[place] == dtype(wrong))
            assert verdict.metrics is not None
            assert msgspec.json.decode(msgspec.json.encode(verdict.metrics), type=Distance) == verdict.metrics


def test_an_element_that_torch_has_right_by_chance_has_the_error_of_its_neighbours() -> None:
    value = np.array([[0.25]], np.float32)
    exact = value.astype(np.float64)
    runtimes = np.array([[0.25 + 20 * 2.0**-25]], np.float32)
    alone = expect(value, exact)
    nearby = [np.full((1, 1), error) for error in (0.0, 2e-8, 5e-8, 1e-9)]
    assert not judge([runtimes], [alone]).passed and judge([runtimes], [expect(value, exact, nearby=nearby)]).passed
    wrong = np.array([[0.25 + 2e-6]], np.float32)
    assert not judge([wrong], [expect(value, exact, nearby=nearby)]).passed
    jumps = [np.full((1, 1), 0.01), np.full((1, 1), NAN), np.zeros((2, 1))]
    assert not judge([runtimes], [expect(value, exact, nearby=jumps)]).passed
