"""The conditions under which a model is right: which there are, and what is said about them."""

from __future__ import annotations

import functools
import json
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.graph.assumptions import METADATA

AXES = ({0: "n", 1: "m"},)
X = torch.arange(24.0).reshape(4, 6) + 1


def export(program: Callable[..., Any], *args: torch.Tensor, **options: Any) -> onnx_parity.ONNXProgram:
    """Export without a word about what is assumed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        return onnx_parity.export(program, args or (X,), dynamic_shapes=AXES if not args else None, **options)


def conditions(program: onnx_parity.ONNXProgram) -> list[str]:
    return [each.condition for each in program.assumptions]


def divisible(x: torch.Tensor) -> torch.Tensor:
    """Its two results have other dtypes, so that no branch of a model joins them."""
    return x * 2 if x.shape[0] % 2 == 0 else x > 0


def as_a_number(x: torch.Tensor) -> torch.Tensor:
    return x * int(x.shape[0] % 2 == 0)


def one_row(x: torch.Tensor) -> torch.Tensor:
    return x > 0 if x.shape[0] == 1 else x * 3


def one_row_after_a_write(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = 1
    return one_row(y)


def written_through_contiguous(x: torch.Tensor) -> torch.Tensor:
    y = x.t().contiguous()
    y[0] = 7
    return x + 0


def written_through_reshape(x: torch.Tensor) -> torch.Tensor:
    y = x.t().reshape(-1)
    y[:1] = 7
    return x + 0


def written_through_ravel(x: torch.Tensor) -> torch.Tensor:
    y = x.t().ravel()
    y[:1] = 7
    return x + 0


def written_through_reshape_as(x: torch.Tensor) -> torch.Tensor:
    y = x.t().reshape_as(x.flatten())
    y[:1] = 7
    return x + 0


@torch.jit.script
def written_through_a_copy_of_a_script(x: torch.Tensor) -> torch.Tensor:
    y = x.t().contiguous()
    y.zero_()
    return x + 0


def written_through_a_copy_of_a_reshaped_copy(x: torch.Tensor) -> torch.Tensor:
    x = x.t().clone().t().reshape(x.shape[0], x.shape[1]) + 0
    y = x.t().contiguous()
    y[0] = 7
    return x + 0


def squeezed_after_a_question_of_torch(x: torch.Tensor) -> torch.Tensor:
    x = (x.expand(1, -1, -1)[0] * 1).squeeze(0)
    return x if x.dim() == 2 else x.reshape(-1, 1)


def number_of_parts(x: torch.Tensor) -> torch.Tensor:
    return x * len(x.chunk(3))


@functools.lru_cache
def _scale(size: int) -> float:
    return size * 0.5


def key_on_the_other_side(x: torch.Tensor) -> torch.Tensor:
    return x if x.shape[0] <= 5 else x * _scale(x.shape[0])


def element_on_the_other_side(x: torch.Tensor) -> torch.Tensor:
    return x if x.shape[0] <= 5 else x * {6: 2.0}.get(x.shape[0], 3.0)


def source_written(x: torch.Tensor) -> torch.Tensor:
    x = x + 0
    y = x.t().contiguous()
    x[0] = 7
    return y


@pytest.mark.parametrize(
    ("program", "condition"),
    [
        (divisible, "n % 2 == 0"),
        (as_a_number, "n % 2 == 0"),
        (one_row, "n != 1"),
        (one_row_after_a_write, "n != 1"),
        (written_through_contiguous, "(m != 1) and (n != 1)"),
        (written_through_reshape, "(m != 1) and (n != 1)"),
        (written_through_ravel, "(m != 1) and (n != 1)"),
        (written_through_reshape_as, "(m != 1) and (n != 1)"),
        (written_through_a_copy_of_a_script, "(m != 1) and (n != 1)"),
        (written_through_a_copy_of_a_reshaped_copy, "(m != 1) and (n != 1)"),
        (squeezed_after_a_question_of_torch, "n != 1"),
        (number_of_parts, "((n - 1)//((n + 2)//3)) + 1 == 2"),
        (key_on_the_other_side, "n <= 5"),
        (element_on_the_other_side, "n <= 5"),
        (source_written, "(m != 1) and (n != 1)"),
    ],
)
def test_a_model_is_right_wherever_its_assumptions_hold(program: Callable[..., Any], condition: str) -> None:
    exported = export(program)
    assert [each.condition for each in exported.assumptions if each.about == "sizes"] == [condition]
    refused = 0
    for n, m in [(1, 5), (5, 1), (2, 3), (3, 2), (6, 7)]:
        x = torch.rand(n, m)
        if exported.assumptions[0].holds_for({"n": n, "m": m}):
            torch.testing.assert_close(exported(x), program(x.clone()))
        else:
            refused += 1
            with pytest.raises(onnx_parity.AssumptionError, match=r"assumes .* \(at .*test_assumptions.py:\d+\), and"):
                exported(x)
    assert refused


def checks_sizes(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 2:
        raise ValueError("an odd number of rows")
    return x.view(2, -1)


def asserts_values(x: torch.Tensor) -> torch.Tensor:
    assert torch.isfinite(x).all(), f"{x.min()} is not finite"
    return x * 2


def asserts_a_number(x: torch.Tensor) -> torch.Tensor:
    if x.max().item() > 1000:
        raise ValueError(f"{x.max()} is too large")
    return x * 2


def written_through_what_is_no_copy_of_one_row(x: torch.Tensor) -> torch.Tensor:
    row = x.clone(memory_format=torch.contiguous_format)[-1:]
    column = row.t().contiguous()
    column[:1] = 7
    line = row.t().reshape(-1)
    line[1:2] = 9
    return row


def convolves(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv1d(x[None], torch.ones(1, 1, 3).expand(1, 1, 3), padding=1).flatten()


def only_reads(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        pass
    return x + 1


def written_and_not_read(x: torch.Tensor) -> torch.Tensor:
    y = x.t().contiguous()
    y[0] = 7
    return y


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
@pytest.mark.parametrize(
    "program",
    [
        checks_sizes,
        asserts_values,
        asserts_a_number,
        only_reads,
        written_and_not_read,
        written_through_what_is_no_copy_of_one_row,
    ],
)
def test_what_only_guards_an_error_or_makes_no_difference_is_no_assumption(program: Callable[..., Any]) -> None:
    exported = onnx_parity.export(program, (X,), dynamic_shapes=AXES, strict=True)
    assert exported.assumptions == ()
    assert METADATA not in exported.model.metadata_props
    x = torch.rand(6, 2)
    torch.testing.assert_close(exported(x), program(x.clone()))


def is_true(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if (x.shape[0] > 3) is True else x * 3


def is_not_false(x: torch.Tensor) -> torch.Tensor:
    def doubled(there: object) -> torch.Tensor:
        return x * 2 if there is not False else x * 3

    return doubled(x.shape[0] > 3)


def matches(x: torch.Tensor) -> torch.Tensor:
    match x.shape[0] > 3:
        case True:
            return x * 2
        case _:
            return x * 3


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is no instruction of the size of `is` to put there")
@pytest.mark.parametrize("program", [is_true, is_not_false, matches])
def test_the_identity_of_a_condition_on_sizes(program: Callable[..., Any]) -> None:
    exported = export(program)
    assert conditions(exported) == []
    torch.testing.assert_close(exported(X), X * 2)
    torch.testing.assert_close(exported(X[:3]), X[:3] * 3)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is no instruction of the size of `is` to put there")
def test_the_identity_of_a_size() -> None:
    """Python has one object for each small number, and warns of programs that rely on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        code = compile("lambda x: x * 2 if x.shape[0] is 5 else x * 3", "identity.py", "eval")
    exported = export(eval(code))
    assert conditions(exported) == ["n != 5"]
    torch.testing.assert_close(exported(X), X * 3)


def asked_twice(x: torch.Tensor) -> torch.Tensor:
    rows = x.shape[0]
    return x * 2 if x.shape[0] is rows else x * 3


def computed_again(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] + 1 - 1 is x.size(0) else x * 3


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is no instruction of the size of `is` to put there")
@pytest.mark.parametrize("program", [asked_twice, computed_again])
def test_large_sizes_are_not_one_object(program: Callable[..., Any]) -> None:
    exported = export(program)
    assert conditions(exported) == ["n <= 256"]
    for rows in (1, 256):
        x = torch.ones(rows, 2)
        torch.testing.assert_close(exported(x), program(x))
    with pytest.raises(onnx_parity.AssumptionError, match="'n' is 257"):
        exported(torch.ones(257, 2))
    with pytest.raises(
        onnx_parity.CaptureError, match=r"two numbers are one object of Python.*\(at .*test_assumptions"
    ):
        onnx_parity.export(program, (torch.ones(300, 2),), dynamic_shapes=AXES)


def test_a_size_is_the_object_that_it_is() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        return x * 2 if rows is rows else x * 3

    exported = export(program)
    assert conditions(exported) == []
    torch.testing.assert_close(exported(torch.ones(300, 2)), program(torch.ones(300, 2)))


def is_other(x: torch.Tensor) -> torch.Tensor:
    others: list[Any] = [1, None, x > 0, x.shape[0]]
    return x * 3 if any(each is True or each is False for each in others) else x * 2


def test_what_is_no_condition_is_not_true() -> None:
    exported = export(is_other)
    assert exported.assumptions == ()
    torch.testing.assert_close(exported(X[:3]), X[:3] * 2)


def doubles_if_positive(x: torch.Tensor) -> torch.Tensor:
    """As all that follow, of other dtypes, so that no branch of a model joins them."""
    return x * 2 if x.sum() > 0 else x > 3


def returns_on_one_line(x: torch.Tensor) -> torch.Tensor:
    if (x[1:] > 5).any(): return x > 2  # fmt: skip  # noqa: E701
    return x + 1


def doubles_if_not_zero(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.is_nonzero(x.sum()) else x > 3


def doubles_by_truth(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x[0, 0] else x > 3


def doubles_numbers(x: torch.Tensor) -> torch.Tensor:
    return x + 3 if math.isnan(x.sum()) else x * 2


def doubles_what_is_small(x: torch.Tensor) -> torch.Tensor:
    return x + 3 if x.numpy().max() > 100 else x * 2


def doubles_what_is_other(x: torch.Tensor) -> torch.Tensor:
    return x > 3 if x.equal(torch.zeros_like(x)) else x * 2


#: Up to Python 3.12, the instruction that asks is that of the whole expression.
_ASKED = "x[0, 0]" if sys.version_info >= (3, 12) else "x * 2 if x[0, 0] else x > 3"


@pytest.mark.parametrize(
    ("program", "other", "condition"),
    [
        (doubles_if_not_zero, X * 0, "torch.is_nonzero(x.sum())"),
        (doubles_by_truth, X * 0, _ASKED),
        (doubles_numbers, X * math.nan, f"what the program reads there is {float(X.sum())}"),
        (doubles_what_is_small, X + 1000, "what the program reads there is as for the example"),
        (doubles_what_is_other, X * 0, "not (x.equal(torch.zeros_like(x)))"),
    ],
)
def test_decisions_that_few_other_values_change_are_assumptions(
    program: Callable[..., Any], other: torch.Tensor, condition: str
) -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="turned a tensor into a Python value"):
        exported = onnx_parity.export(program, (X,))
    assert conditions(exported) == [condition]
    torch.testing.assert_close(exported(X), X * 2)
    with pytest.raises(onnx_parity.AssumptionError):
        exported(other)


def scales_by_a_number(x: torch.Tensor) -> torch.Tensor:
    return x * len("0" * int(x[0, 0].item()))


def test_values_that_a_program_decides_by() -> None:
    exported = export(doubles_if_positive, X)
    assert conditions(exported) == ["x.sum() > 0"]
    torch.testing.assert_close(exported(X + 1), (X + 1) * 2)
    with pytest.raises(onnx_parity.AssumptionError, match=r"assumes x.sum\(\) > 0 "):
        exported(-X)
    assert conditions(export(doubles_if_positive, -X)) == ["not (x.sum() > 0)"]
    assert conditions(export(returns_on_one_line, X - X)) == ["not ((x[1:] > 5).any())"]
    assert conditions(export(scales_by_a_number, X)) == ["what the program reads there is 1.0"]


def test_the_metadata_and_the_text_have_the_conditions() -> None:
    exported = export(divisible)
    (assumption,) = exported.assumptions
    line = divisible.__code__.co_firstlineno + 2
    assert str(assumption) == f"n % 2 == 0 (at {__file__}:{line}); otherwise the program takes another branch"
    assert json.loads(exported.model_proto.metadata_props[0].value) == [
        {
            "condition": "n % 2 == 0", "about": "sizes", "otherwise": "the program takes another branch",
            "file": "test_assumptions.py", "line": line, "module": "", "stated": False,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("opset", [7, 11, 18, 26])
def test_the_model_tells_whether_they_hold(opset: int) -> None:
    def program(x: torch.Tensor, mask: torch.Tensor) -> Any:
        x = x.view(-1, 8).sum(1) if x.shape[0] % 8 == 0 else x > 0
        return [x * 2 if mask.tolist() == [True, False] else x, 7]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        exported = onnx_parity.export(
            program,
            (torch.ones(16), torch.tensor([True, False])),
            dynamic_shapes=({0: "n"}, {}),
            opset_version=opset,
            allow_ignored_inputs=True,
            assumptions_output=True,
        )
    assert exported.output_names == ("output_0", "output_1", "assumptions_hold")
    assert len(exported.assumptions) == 2
    run = exported.runtime_session().run
    assert run({"x": torch.ones(24), "mask": torch.tensor([True, False])})[-1].tolist() is True
    assert run({"x": torch.ones(24), "mask": torch.tensor([True, True])})[-1].tolist() is False
    results, plain = exported(torch.ones(24), torch.tensor([True, False]))
    assert (results.tolist(), plain) == ([16.0] * 3, 7)


def test_a_model_without_assumptions_tells_that_they_hold() -> None:
    exported = onnx_parity.export(torch.relu, (X,), assumptions_output=True, verify=True)
    assert exported.runtime_session().run({exported.input_names[0]: X})[-1].tolist() is True
    with pytest.raises(onnx_parity.ArgumentError, match="assumptions_output"):
        onnx_parity.export(torch.relu, (X,), assumptions_output="yes")  # type: ignore[arg-type]


def test_axes_are_renamed_in_them() -> None:
    exported = export(divisible)
    exported.rename_axes({"n": "batch"})
    assert conditions(exported) == ["batch % 2 == 0"]
    assert "batch % 2 == 0" in exported.model.metadata_props[METADATA]
    with pytest.raises(onnx_parity.AssumptionError, match="and 'batch' is 3"):
        exported(torch.rand(3, 2))


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
@pytest.mark.parametrize(
    ("program", "stated"),
    [
        (divisible, "n % 2 == 0"),
        (divisible, "n%2==0 and m > 1"),
        (divisible, "n % 6 == 4"),
        (divisible, "n % 2 != 1"),
        (one_row, "n > 4 - 1"),
        (one_row, "n >= 2 and m != 7"),
        (doubles_if_positive, "x.sum()  >  0"),
        (doubles_if_positive, "(x.sum()>0)"),
    ],
)
def test_what_the_caller_states_needs_no_warning(program: Callable[..., Any], stated: str) -> None:
    exported = onnx_parity.export(program, (X,), dynamic_shapes=AXES, assume=[stated], strict=True)
    assert exported.assumptions and all(each.is_stated for each in exported.assumptions)


@pytest.mark.parametrize("stated", ["n > 0", "n != 3 and m >= 1"])
def test_what_the_caller_states_stays_an_assumption_of_a_program_that_asks_nothing(stated: str) -> None:
    exported = export(torch.relu, assume=[stated])
    assert {*conditions(exported)} == {*stated.split(" and ")}
    n = 0 if stated == "n > 0" else 3
    with pytest.raises(onnx_parity.AssumptionError, match="the sizes are not those that were stated with assume"):
        exported(torch.rand(n, 2))


@pytest.mark.parametrize("stated", ["m > 1", "n > 1", "n % 3 == 1", "n < 4000", "n != m"])
def test_strict_refuses_what_is_not_stated(stated: str) -> None:
    with pytest.raises(onnx_parity.FrozenValueError, match="state what always holds: assume=\\['n % 2 == 0'\\]"):
        onnx_parity.export(divisible, (X,), dynamic_shapes=AXES, strict=True, assume=[stated])


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (["rows > 1"], "assume has 'rows > 1', but 'rows' is no dynamic axis: the dynamic axes are 'n', 'm'"),
        (["n >"], "assume has 'n >', which is no condition over the sizes of dynamic axes, such as 'n > 1', and none "
                  "over values that the program decides by: 'n % 2 == 0'"),
        (["n ** 2 > 1"], r"assume has 'n \*\* 2 > 1', which is no condition"),
        (["m > 2", "n < 3"], "assume has 'n < 3', which does not hold for the example, where n is 4"),
        ("n > 1", "assume is 'n > 1': give a list of conditions"),
        ([3], r"assume is \[3\]: give a list of conditions"),
    ],
)  # fmt: skip
def test_conditions_that_cannot_be_read_are_refused(stated: Any, message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError, match=message):
        export(divisible, assume=stated)


def test_a_size_of_one_in_the_example_takes_its_own_branch() -> None:
    with pytest.raises(onnx_parity.DynamicAxisError, match="n == 1 is True in the example, and False for other sizes"):
        onnx_parity.export(one_row, (X[:1],), dynamic_shapes=AXES)


def test_a_line_that_asks_of_several_values_assumes_each() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        for scale in (1.0, 0.5, 0.1):
            if x.sum() * scale > 1:  # noqa: SIM108
                x = x * scale
            else:
                x = x > 0
        return x

    with pytest.warns(onnx_parity.TracerWarning):
        program = onnx_parity.export(scaled, (torch.tensor([2.0, 5.0]),))
    asked = "x.sum() * scale > 1"
    assert [each.condition for each in program.assumptions] == [asked, asked, f"not ({asked})"]
    torch.testing.assert_close(program(torch.tensor([3.0, 4.5])), scaled(torch.tensor([3.0, 4.5])))
    with pytest.raises(onnx_parity.AssumptionError):
        program(torch.tensor([1.0, 0.5]))
