"""torch's results, and those of float64 twins of programs that fix their dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from onnx_parity.exporter.verification.oracle import FALLBACK, FLOOR_ULPS, Expected
from onnx_parity.exporter.verification.reference import Measurement, Twin
from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.case import Declaration, bools, floats, ints, model, op
from onnx_parity.harness.cases.program import build
from onnx_parity.harness.judging.reference import NondeterministicError, Reference, consult, consult_on_empty_axes
from tests.harness.fakes import arrays, tensors


def consulted(declaration: Declaration, dtype: Dtype = Dtype.FLOAT32) -> Reference:
    return consult(build(next(declaration.cases("case")), dtype, Device.CPU, 0))


def only(reference: Reference) -> Expected:
    (expected,) = reference.example.expected
    return expected


def relative_tolerance(expected: Expected) -> float:
    assert expected.centre is not None
    assert expected.tolerance is not None
    return float((expected.tolerance / np.abs(expected.centre)).max())


def test_the_twin_computes_in_float64() -> None:
    expected = only(consulted(op(torch.exp, floats(50))))
    assert expected.value.dtype == np.float32
    assert expected.centre is not None
    assert 0 < np.abs(expected.centre - expected.value).max() < 1e-5


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * torch.tensor(0.1),
        lambda x: x.to(torch.float32) * 0.1,
        lambda x: torch.zeros(3, dtype=torch.float32) + x * 0.1,
        lambda x: torch.full((3,), 0.1) * x,
    ],
    ids=["literal", "cast", "dtype asked for", "factory"],
)
def test_the_twin_widens_what_a_program_makes_for_itself(program: object) -> None:
    assert callable(program)
    expected = only(consulted(op(program, floats(3))))
    assert expected.centre is not None
    assert not np.array_equal(expected.centre, expected.centre.astype(np.float32))


def test_the_twin_of_a_program_that_writes_into_a_tensor_of_its_own() -> None:
    expected = only(consulted(op(lambda x: torch.exp(x, out=torch.empty(3)), floats(3))))
    assert expected.centre is not None
    assert 0 < np.abs(expected.centre - expected.value).max() < 1e-5


def test_what_is_written_to_a_tensor_of_a_fixed_dtype_is_not_lost() -> None:
    held = torch.zeros(3)
    expected = only(consulted(op(lambda x: held.clone(memory_format=torch.preserve_format).copy_(x), floats(3))))
    assert expected.centre is not None
    assert np.array_equal(expected.centre.astype(np.float32), expected.value)
    out = only(consulted(op(lambda x: torch.exp(x, out=held), floats(3))))
    assert relative_tolerance(out) >= FALLBACK[np.dtype(np.float32)][0]


def test_modules_and_their_weights_have_a_twin() -> None:
    for dtype in (Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16):
        expected = only(consulted(op(torch.nn.Linear, floats(2, 8), in_features=8, out_features=4), dtype))
        assert expected.centre is not None
        assert relative_tolerance(expected) < {Dtype.FLOAT32: 1e-4, Dtype.FLOAT16: 0.5, Dtype.BFLOAT16: 4.0}[dtype]
    outputs = consulted(model(torch.nn.LSTM, floats(5, 2, 4), input_size=4, hidden_size=3)).example.expected
    assert [expected.value.shape for expected in outputs] == [(5, 2, 3), (1, 2, 3), (1, 2, 3)]


def test_an_elementwise_operator_has_a_tolerance_of_a_few_ulps() -> None:
    assert relative_tolerance(only(consulted(op(torch.tanh, floats(20))))) < 50 * 2.0**-23


def test_a_sum_that_cancels_has_a_tolerance_of_its_terms() -> None:
    """The sum is small and its terms are not: no float32 evaluation has all of its digits."""
    expected = only(consulted(op(lambda x: (x * 1000).sum() - (x * 1000).sum() * 0.99999, floats(64))))
    assert expected.tolerance is not None
    assert float(expected.tolerance) > 100 * FLOOR_ULPS * float(np.spacing(expected.value))


def test_without_float64_the_dtypes_tolerance_holds() -> None:
    def insists(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64:
            raise RuntimeError("no kernel for float64")
        return x * 2

    expected = only(consulted(op(insists, floats(3))))
    relative, absolute = FALLBACK[np.dtype(np.float32)]
    assert expected.tolerance is not None
    assert np.allclose(expected.tolerance, relative * np.abs(expected.value) + absolute)


def test_other_values_are_used_unless_there_are_none() -> None:
    reference = consulted(op(F.elu, floats(4)))
    assert reference.other_values is not None
    example, other = arrays(reference.example.feeds), arrays(reference.other_values.feeds)
    assert not np.array_equal(other["x"], example["x"])
    assert consulted(op(lambda x: x, ints(3, low=2, high=3))).other_values is None


def test_an_operator_runs_with_a_nan_in_its_first_floats() -> None:
    trial = consulted(op(torch.where, bools(2, 3), floats(2, 3), floats(2, 3))).with_nan
    assert trial is not None
    assert {name: int(np.isnan(feed).sum()) for name, feed in arrays(trial.feeds).items()} == {
        "x0": 0,
        "x1": 1,
        "x2": 0,
    }


def test_a_nan_is_left_out_where_there_are_no_floats_or_the_program_takes_none() -> None:
    def insists(x: torch.Tensor) -> torch.Tensor:
        if x.isnan().any():
            raise ValueError("x is not a number")
        return x * 2

    assert consulted(op(torch.neg, ints(3))).with_nan is None
    assert consulted(op(insists, floats(3))).with_nan is None
    assert consulted(op(torch.neg, floats(3), without_nan="it is only an example")).with_nan is None


def test_other_sizes_are_one_and_another_or_those_declared() -> None:
    declaration = op(torch.add, floats(2, 3), floats(2, 3), dynamic={"x0": {0: "n"}, "x1": {0: "n"}})
    shapes = [[feed.shape for feed in arrays(trial.feeds).values()] for trial in consulted(declaration).other_sizes]
    assert shapes == [[(1, 3), (1, 3)], [(5, 3), (5, 3)]]
    declaration = op(F.relu, floats(2, 3), dynamic={"x": {0: "a", 1: "b"}}, sizes={"a": [4, 6, 8], "b": [5]})
    shapes = [[feed.shape for feed in arrays(trial.feeds).values()] for trial in consulted(declaration).other_sizes]
    assert shapes == [[(4, 5)], [(6, 5)], [(8, 5)]]


def test_empty_axes_are_those_without_declared_sizes_that_torch_takes() -> None:
    def shapes(declaration: Declaration) -> list[list[tuple[int, ...]]]:
        program = build(next(declaration.cases("it")), Dtype.FLOAT32, Device.CPU, 0)
        return [[feed.shape for feed in arrays(each.feeds).values()] for each in consult_on_empty_axes(program)]

    axes = {"x": {0: "a", 1: "b"}}
    assert shapes(op(F.relu, floats(2, 3), dynamic=axes)) == [[(0, 3)], [(2, 0)]]
    assert shapes(op(F.relu, floats(2, 3), dynamic=axes, sizes={"a": [4]})) == [[(2, 0)]]
    assert shapes(op(torch.amax, floats(2, 3), dim=0, dynamic=axes)) == [[(2, 0)]]


def test_an_in_place_program_leaves_its_inputs_alone() -> None:
    def overwrite(x: torch.Tensor) -> torch.Tensor:
        x[:, 0] = 7.0
        return x

    reference = consulted(op(overwrite, floats(2, 3)))
    assert not (tensors(reference.example.inputs)[0] == 7.0).any()
    assert (only(reference).value[:, 0] == 7.0).all()


def test_bfloat16_reaches_numpy() -> None:
    reference = consulted(op(F.relu, floats(3)), Dtype.BFLOAT16)
    assert only(reference).value.dtype.name == "bfloat16"
    assert arrays(reference.example.feeds)["x"].dtype.name == "bfloat16"


def test_in_float64_the_error_of_float32_stands_for_torchs_own() -> None:
    """log(1 + tiny) by way of 1 + tiny: float64 makes the same mistake twice and would seem to make none."""
    naive = op(lambda x: torch.log(1 + x * 1e-4), floats(50, low=1.0))
    assert relative_tolerance(only(consulted(naive, Dtype.FLOAT64))) > 1e4 * 2.0**-52
    asked_for = op(lambda x: torch.log(1 + x.double() * 1e-4), floats(50, low=1.0))
    assert only(consulted(asked_for)).value.dtype == np.float64
    assert relative_tolerance(only(consulted(asked_for))) > 1e4 * 2.0**-52


def test_programs_on_ints_have_no_twin() -> None:
    expected = only(consulted(op(lambda x: x / 2, ints(5)), Dtype.INT64))
    relative, absolute = FALLBACK[np.dtype(np.float32)]
    assert expected.tolerance is not None
    assert np.allclose(expected.tolerance, relative * np.abs(expected.value) + absolute)


def test_a_random_program_is_distinguished_from_a_seeded_one() -> None:
    with pytest.raises(NondeterministicError) as told:
        consulted(op(lambda x: (x + 1, x + torch.rand_like(x)), floats(3)))
    assert str(told.value) == (
        "output 1 is another one when torch runs the program again on the same inputs. "
        "Seed what it draws, take it as an input, or return only what does not depend on it."
    )
    with pytest.raises(NondeterministicError):
        consulted(op(lambda x: x[torch.rand(60) > 0.5], floats(60)))

    def seeded(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3, generator=torch.Generator().manual_seed(0))

    assert only(consulted(op(seeded, floats(3)))).value.shape == (3,)
    assert np.isnan(only(consulted(op(lambda x: x * float("nan"), floats(3)))).value).all()


def test_the_calls_of_a_program_are_its_own_and_not_those_within_them() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.elu(x).add(torch.linalg.norm(x))

    assert consulted(op(program, floats(2, 3))).calls == (
        "torch.nn.functional.elu",
        "torch.linalg.norm",
        "torch.Tensor.add",
    )


def test_the_modules_of_a_program_are_among_its_calls() -> None:
    assert consulted(op(torch.nn.ELU, floats(2, 3))).calls == ("torch.nn.ELU", "torch.nn.functional.elu")


def _times_run_again(program: Callable[[torch.Tensor], list[torch.Tensor]], x: torch.Tensor) -> list[torch.Tensor]:
    """The inputs for which a program is run, besides its example, because its outputs have few elements."""
    similar: list[torch.Tensor] = []

    def again(inputs: tuple[torch.Tensor]) -> list[np.ndarray]:
        similar.append(inputs[0])
        return [output.numpy() for output in program(*inputs)]

    twin: Twin[Any, tuple[torch.Tensor]] = Twin(program, torch.float64, lambda program, inputs: program(*inputs))
    values = [output.numpy() for output in program(x)]
    (expected, *_) = Measurement(values, (x,), twin, None, seeds=(), moved_by=0.0, again=again).expected()
    assert expected.tolerance is not None
    return similar


@pytest.mark.parametrize(("size", "times"), [(1, 7), (2, 3), (3, 2), (4, 1), (8, 0), (100, 0)])
def test_a_model_is_run_for_similar_inputs_if_an_output_has_few_elements(size: int, times: int) -> None:
    x = torch.randn(300)
    similar = _times_run_again(lambda x: [x.exp()[:size], x.new_zeros(0), x.argmax(), x.sin()], x)
    assert len(similar) == times
    for given in similar:
        assert given.dtype == torch.float32 and not torch.equal(given, x)
        torch.testing.assert_close(given, x, rtol=2.4e-7, atol=0)


def test_similar_integers_are_the_same_ones_in_another_order() -> None:
    x = torch.arange(12).reshape(3, 4)
    similar = _times_run_again(lambda x: [(x * torch.linspace(0, 1, 4)).sum()], x)
    assert len(similar) == 7 and all(torch.equal(given.sort().values, x) for given in similar)
    assert torch.equal(similar[0], x[:, [3, 0, 1, 2]])


def test_a_program_that_refuses_similar_inputs_is_judged_by_its_example() -> None:
    x = torch.arange(4).cumsum(0).float()

    def program(given: torch.Tensor) -> list[torch.Tensor]:
        if not torch.equal(given, x.to(given.dtype)):
            raise ValueError("other inputs")
        return [given.sum()]

    assert not _times_run_again(program, x)
