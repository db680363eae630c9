"""Mistakes in declarations: each is reported with its line, and with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from onnx_parity.harness.case import DeclarationError, ListOf, floats, given, listed, model, numbers, op
from tests.harness.faults import LEAN, run_project


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: op(floats(2, 3)),  # type: ignore[arg-type]
            "the first argument is the program, and floats(2,3) cannot be called. Write what is to be run, then its "
            "inputs: op(torch.relu, floats(2, 3)).",
        ),
        (
            lambda: op("relu", floats(2, 3)),  # type: ignore[arg-type]
            "the first argument is the program, and 'relu' cannot be called. Write what is to be run, then its inputs: "
            "op(torch.relu, floats(2, 3)).",
        ),
        (
            lambda: model(torch.nn.Linear(3, 4), floats(2, 3)),
            "the first argument of model(...) makes a module, and this is one. Write model(Linear, ...) with the "
            "arguments of Linear as keywords, or model(lambda: Linear(...), ...).",
        ),
        (
            lambda: op(torch.relu, (2, 3)),  # type: ignore[arg-type]
            "the input (2, 3) is a shape, but an input is a maker of a tensor. Write floats(2, 3), or numbers, ints, "
            "bools or distinct of that shape.",
        ),
        (
            lambda: op(torch.add, floats(2), 2),  # type: ignore[arg-type]
            "the input 2 is of type int, but an input is a maker such as floats(2, 3), or given([1.0, 2.0]) for fixed "
            "values. Give other arguments as keywords, or in a lambda.",
        ),
        (
            lambda: op(torch.relu, torch.ones(2)),  # type: ignore[arg-type]
            "the input tensor([1., 1.]) is of type Tensor, but an input is a maker such as floats(2, 3), or "
            "given([1.0, 2.0]) for fixed values. Give other arguments as keywords, or in a lambda.",
        ),
        (
            lambda: op(torch.cat, [floats(2), floats(2)]),  # type: ignore[arg-type]
            "the input [floats(2), floats(2)] is a list. Write a tuple for one argument that holds "
            "several tensors, or listed(floats(2, 3), floats(2, 3)) for an input that is a list.",
        ),
        (
            lambda: op(torch.add, floats(2, 3), x=floats(2, 3)),
            "two inputs are called 'x': one by its position, one by its keyword. Give both by position, or rename the "
            "keyword.",
        ),
        (
            lambda: op(torch.sum, floats(2, 3), rows={"dim": 0}),  # type: ignore[arg-type]
            "rows={'dim': 0} is no list of combinations. Write one for each case: "
            'rows=[{"kernel_size": 2}, {"kernel_size": 3, "stride": 1}].',
        ),
        (
            lambda: op(torch.sum, floats(2, 3), rows=[{"dim": 0}], dim=[0, 1]),
            "dim is both a keyword and in rows=. Remove one of the two.",
        ),
        (
            lambda: op(torch.sum, floats(2, 3), dtypes=torch.float16),  # type: ignore[arg-type]
            "dtypes=torch.float16 is no list of dtypes. Write dtypes=[torch.float32].",
        ),
    ],
)
def test_what_is_no_program_input_or_sweep_is_reported(declare: Callable[[], object], message: str) -> None:
    assert refused(declare) == message


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: op(F.elu, floats(2, 3), dynamic={"y": {0: "n"}}),
            "dynamic= names 'y', which is not an input: the inputs are x.",
        ),
        (
            lambda: op(torch.zeros, size=(2,), dynamic={"x": {0: "n"}}),
            "dynamic= names 'x', which is not an input: the program has no inputs.",
        ),
        (
            lambda: op(torch.add, floats(2), other=[floats(2), 1], dynamic={"other": {0: "n"}}),
            "dynamic= names 'other', which is not an input: the inputs are x.",
        ),
        (
            lambda: op(F.linear, floats(2, 3), floats(4, 3, constant=True), dynamic={"x1": {0: "n"}}),
            "dynamic= names 'x1', which is not an input: the inputs are x0.",
        ),
        (
            lambda: model(torch.nn.ReLU, floats(2, 3), dynamic={"x": {2: "n"}}),
            "dynamic= names axis 2 of x, whose shape is (2, 3).",
        ),
        (
            lambda: op(torch.add, floats(2, 3), numbers(3), dynamic={"x0": {0: "n"}, "x1": {0: "n"}}),
            "'n' is 2 in one input and 3 in x1. Give them different names, or the inputs the same size.",
        ),
        (
            lambda: op(F.elu, given([1.0, 2.0]), dynamic={"x": {0: "n"}}),
            "dynamic= names 'x', whose values are fixed, so that it has no other sizes. Write a maker such as "
            "floats(2, 3), or leave the input out of dynamic=.",
        ),
        (
            lambda: op(F.elu, floats(2), dynamic=["x"]),  # type: ignore[arg-type]
            'dynamic=[\'x\'] does not map inputs to their axes. Write dynamic={"x": {0: "batch"}}.',
        ),
        (
            lambda: op(F.elu, floats(2), dynamic={"x": [0]}),  # type: ignore[dict-item]
            'dynamic= maps \'x\' to [0], but not to the names of its axes. Write dynamic={"x": {0: "batch"}}.',
        ),
        (
            lambda: op(F.elu, floats(2), dynamic={"x": {"batch": 0}}),  # type: ignore[dict-item]
            "dynamic= maps 'x' to {'batch': 0}, but not to the names of its axes. "
            'Write dynamic={"x": {0: "batch"}}.',
        ),
        (
            lambda: op(F.elu, floats(2), dynamic={"x": {0: "n"}}, sizes={"m": [1, 5]}),
            "sizes= has sizes for 'm', but dynamic= names n. Name an axis 'm' in dynamic=, or remove it from sizes=.",
        ),
        (
            lambda: op(F.elu, floats(2), sizes={"n": [1, 5]}),
            "sizes= has sizes for 'n', but dynamic= names no axis. Name an axis 'n' in dynamic=, or remove it from "
            "sizes=.",
        ),
        (
            lambda: op(F.elu, floats(2), dynamic={"x": {0: "n"}}, sizes={"n": 5}),  # type: ignore[dict-item]
            "sizes= maps 'n' to 5, but not to a list of sizes. Write sizes={\"n\": [1, 5]}.",
        ),
        (
            lambda: op(F.elu, floats(2), dynamic={"x": {0: "n"}}, sizes=[1, 5]),  # type: ignore[arg-type]
            'sizes=[1, 5] does not map axes to their sizes. Write sizes={"batch": [1, 5]}.',
        ),
    ],
)
def test_dynamic_axes_that_the_inputs_do_not_have_are_reported(declare: Callable[[], object], message: str) -> None:
    assert refused(declare) == message


def refused(declare: Callable[[], object]) -> str:
    with pytest.raises(DeclarationError) as error:
        declare()
    line = f"{__file__}:{declare.__code__.co_firstlineno}: "
    assert str(error.value).startswith(line)
    return str(error.value).removeprefix(line)


def test_lists_and_inputs_of_some_cases_alone_are_no_mistakes() -> None:
    items = listed(floats(2, 3), floats(4, 3))
    assert op(torch.cat, items, dynamic={"x": ListOf({0: "rows"})}, sizes={"rows": [1, 5], "len(x)": [1, 3]}).sizes
    cases = op(torch.add, rows=[{"input": floats(2)}, {"input": floats(3)}], other=1, dynamic={"input": {0: "n"}})
    assert len(list(cases.cases("it"))) == 2


def test_a_mistake_is_reported_once_at_collection_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = some_cases.py\n")
    (tmp_path / "some_cases.py").write_text(
        "import torch\nfrom onnx_parity.harness.case import floats, op\n"
        'many = op(torch.pow, floats(2), exponent=[1, 2, 3], dynamic={"y": {0: "n"}})\n'
    )
    ended = run_project(tmp_path, "pytest", *LEAN, "-n", "0", "some_cases.py")
    told = f"{tmp_path / 'some_cases.py'}:3: dynamic= names 'y', which is not an input: the inputs are x."
    assert ended.text.splitlines().count(told) == 1
    assert "Traceback" not in ended.text
    assert "some_cases.py:3: in <module>" not in ended.text
    assert "1 error" in ended.text
