"""The vocabulary of declarations: the cases of a declaration line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from onnx_parity.harness.axes import FLOATING, Dtype, Tier
from onnx_parity.harness.case import (
    Declaration,
    DeclarationError,
    bools,
    distinct,
    floats,
    given,
    image,
    ints,
    model,
    numbers,
    op,
)
from onnx_parity.harness.record import Kind


def labels(declaration: Declaration) -> list[str]:
    return [case.label for case in declaration.cases("it")]


def test_a_list_is_swept_and_anything_else_is_not() -> None:
    assert labels(op(F.elu, floats(2, 3))) == ["it"]
    assert labels(op(F.elu, floats(2, 3), alpha=0.5)) == ["it"]
    assert labels(op(F.elu, floats(2, 3), alpha=[0.5])) == ["it[alpha=0.5]"]
    pool = op(F.avg_pool2d, floats(1, 1, 8, 8), kernel_size=[2, (2, 3)], padding=1, ceil_mode=[False, True])
    assert labels(pool) == [
        "it[kernel_size=2,ceil_mode=False]",
        "it[kernel_size=2,ceil_mode=True]",
        "it[kernel_size=(2,3),ceil_mode=False]",
        "it[kernel_size=(2,3),ceil_mode=True]",
    ]
    assert [dict(case.arguments) for case in pool.cases("it")][2] == {
        "kernel_size": (2, 3),
        "padding": 1,
        "ceil_mode": False,
    }


def test_any_name_may_be_a_keyword_of_the_program() -> None:
    swept = op(torch.where, bools(3), self=[floats(3)], program=1, other=2.0)
    assert labels(swept) == ["it[self=floats(3)]"]
    assert dict(next(swept.cases("it")).arguments)["program"] == 1


def test_rows_give_combinations_one_by_one() -> None:
    pool = op(F.avg_pool2d, floats(1, 1, 8, 8), rows=[{"kernel_size": 2}, {"kernel_size": 3, "stride": 1}])
    assert labels(pool) == ["it[kernel_size=2]", "it[kernel_size=3,stride=1]"]


def test_values_are_spelled_without_spaces() -> None:
    swept = op(
        torch.einsum, floats(2), it=[None, "a b", torch.float16, floats(2, 3), ints(4), (1, (2.5, None)), torch.relu]
    )
    assert labels(swept) == [
        "it[it=None]",
        "it[it=ab]",
        "it[it=float16]",
        "it[it=floats(2,3)]",
        "it[it=ints(4)]",
        "it[it=(1,(2.5,None))]",
        "it[it=relu]",
    ]


def test_a_declaration_knows_where_it_stands() -> None:
    declaration = op(F.elu, floats(2))
    assert declaration.file == Path(__file__)
    line = declaration.file.read_text().splitlines()[declaration.line - 1]
    assert line.strip() == "declaration = op(F.elu, floats(2))"
    assert next(declaration.cases("elu")).family == "test_case"


def test_operators_run_in_the_smoke_tier_and_models_only_if_declared() -> None:
    assert (op(F.elu, floats(2)).kind, op(F.elu, floats(2)).tier) == (Kind.OPERATOR, Tier.SMOKE)
    assert (model(torch.nn.ReLU, image(8)).kind, model(torch.nn.ReLU, image(8)).tier) == (Kind.MODEL, Tier.DEFAULT)
    assert model(torch.nn.ReLU, image(8), tier="smoke").tier is Tier.SMOKE


def test_the_dtype_is_the_inputs_own_where_all_pin_theirs() -> None:
    assert op(torch.bitwise_and, ints(3), ints(3)).dtypes == (Dtype.INT64,)
    assert op(torch.logical_not, bools(3)).dtypes == (Dtype.BOOL,)
    assert op(torch.gather, floats(3), index=ints(3)).dtypes == (Dtype.FLOAT32,)
    assert op(torch.add, numbers(3), numbers(3), dtypes=[torch.int32, torch.float64]).dtypes == (
        Dtype.INT32,
        Dtype.FLOAT64,
    )


def test_a_tolerance_is_for_every_dtype_or_for_those_that_it_names() -> None:
    everywhere = op(F.elu, floats(2), tolerance=1e-3, because="it is hard")
    doubles = op(F.elu, floats(2), tolerance={torch.float64: 1e-14}, because="it is hard")
    assert {everywhere.tolerance[dtype] for dtype in FLOATING} == {1e-3}
    assert doubles.tolerance == {Dtype.FLOAT64: 1e-14} and not op(F.elu, floats(2)).tolerance


def test_declarations_that_make_no_sense_are_refused() -> None:
    def refused(make: object) -> str:
        assert callable(make)
        with pytest.raises(DeclarationError) as error:
            make()
        message = str(error.value)
        assert message.startswith(f"{__file__}:")
        return message.split(": ", 1)[1]

    assert refused(lambda: op(F.elu, floats(2), alpha=[])) == (
        "alpha=[] has no values to sweep over. Give it a value, or a tuple."
    )
    without_reason = refused(lambda: op(F.elu, floats(2), tolerance=1e-3))
    assert without_reason == (
        "tolerance= and signed_zeros= need a because=, and because= needs one of them. Write both."
    )
    assert refused(lambda: op(F.elu, floats(2), because="it is hard")) == without_reason
    assert refused(lambda: op(torch.add, floats(2), dtypes=[torch.int64])) == (
        "floats(...) cannot be int64. Use numbers(...), which has any dtype."
    )
    assert refused(lambda: op(F.elu, floats(2), nodes={99: 1})) == (
        "nodes={99: 1} does not say from which of the opsets 7 to 28 on a model has how many nodes at most. "
        "Write nodes={17: 1}."
    )
    assert (
        refused(lambda: op(F.elu, floats(2), nodes={17: -1})) == "nodes={17: -1} has -1, which is no number of nodes."
    )
    no_dtype = f"no cell can be torch.complex128, but torch.{', torch.'.join(Dtype)}."
    strict = {torch.complex128: 1.0}
    assert refused(lambda: op(torch.add, numbers(2), dtypes=[torch.complex128])) == no_dtype
    assert refused(lambda: op(F.elu, floats(2), tolerance=strict, because="it is hard")) == no_dtype
    assert refused(lambda: op(F.elu, floats(2), tier="huge")) == (
        "tier='huge' is not a tier. Write one of smoke, default, full."
    )
    assert refused(lambda: labels(op(F.elu, floats(2), alpha=[1.0, 1.0]))) == (
        "it[alpha=1.0] is declared twice. Drop one of the two values."
    )


def test_makers_make_what_they_say() -> None:
    normal = floats(1000).make(0, Dtype.FLOAT32)
    assert normal.dtype == torch.float32
    assert abs(normal.mean()) < 0.2
    bounded = floats(1000, low=1.0, high=3.0).make(0, Dtype.FLOAT64)
    assert 1.0 <= bounded.min() < bounded.max() < 3.0
    assert floats(1000, low=5.0).make(0, Dtype.FLOAT32).max() <= 7.0
    assert floats(1000, high=-5.0).make(0, Dtype.FLOAT32).min() >= -7.0
    special = floats(4, 4, special=(float("nan"), float("inf"), -float("inf"))).make(3, Dtype.FLOAT32)
    assert (int(special.isnan().sum()), int(special.isinf().sum())) == (1, 2)
    indices = ints(100, low=-2, high=3, dtype=torch.int32).make(0, Dtype.FLOAT16)
    assert indices.dtype == torch.int32
    assert set(indices.tolist()) == {-2, -1, 0, 1, 2}
    assert numbers(100).make(0, Dtype.UINT8).min() == 0
    assert distinct(5, 7).make(0, Dtype.FLOAT16).unique().numel() == 35
    # What fewer bits cannot hold is among those that need not be small.
    for maker, is_far in ((numbers(9), True), (distinct(9), True), (numbers(9, high=5), False), (ints(9), False)):
        wide = maker.make(0, Dtype.INT64)
        assert torch.equal(wide.int().long(), wide) != is_far
    assert torch.equal(numbers(9).make(0, Dtype.INT32), numbers(9).make(0, Dtype.INT64).int())
    assert numbers(9, low=1, high=3, far=True).make(0, Dtype.FLOAT64).max() > 2**32
    assert set(bools(100).make(0, Dtype.FLOAT32).tolist()) == {True, False}
    assert image(8).make(0, Dtype.FLOAT32).shape == (2, 3, 8, 8)


def test_given_values_are_given_in_the_cells_dtype_unless_they_are_ints() -> None:
    assert given([0.1, 2.0]).make(7, Dtype.FLOAT64).tolist() == [0.1, 2.0]
    assert given([[1, 2]]).make(7, Dtype.FLOAT32).dtype == torch.int64
    assert given([True]).make(7, Dtype.FLOAT32).dtype == torch.bool
    assert given([1, 2], dtype=torch.uint8).make(7, Dtype.FLOAT32).dtype == torch.uint8
    with pytest.raises(DeclarationError) as refused:
        given([0.5]).resize({0: 2})
    assert str(refused.value) == "given(1) has no other sizes; a dynamic input needs a maker such as floats(2, 3)."


def test_a_float64_cell_sees_digits_that_float32_would_lose() -> None:
    wide = floats(10).make(0, Dtype.FLOAT64)
    assert not torch.equal(wide, wide.float().double())
    assert torch.equal(wide.float(), floats(10).make(0, Dtype.FLOAT32))


def test_nothing_is_built_before_it_is_needed() -> None:
    def never() -> torch.nn.Module:
        raise AssertionError("built at declaration or while cases were listed")

    assert labels(model(never, image(100_000))) == ["it"]
