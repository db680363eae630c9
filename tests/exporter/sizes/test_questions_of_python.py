"""What Python itself asks of sizes, as `is`, `in`, `match` and `max` do: the answer is an assumption, or makes no
difference, or the program is refused."""

from __future__ import annotations

import functools
import numbers
import operator
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np
import pytest
import torch

import onnx_parity
from onnx_parity.exporter.torch_inside.bytecode import asking as code_asking
from onnx_parity.exporter.torch_inside.bytecode import compares_by_identity
from onnx_parity.exporter.torch_inside.this_thread import records_here

FOUR = 4
#: What is asked of the sizes n and m, and a condition of the model, or "" if it has none.
ASKED = {
    "n is FOUR": "n != 4",
    "n is not FOUR": "n != 4",
    "n is x.shape[0]": "n <= 256",
    "n is m": "n != m",
    "(n > 4) is (m > 4)": "(n > 4) != (m > 4)",
    "n is None": "",
    "operator.is_(n, 4)": "n != 4",
    "operator.is_not(n, FOUR)": "n != 4",
    "n in (4, 6)": "n != 6",
    "n not in [4, 6]": "n != 6",
    "4 in x.shape": "n != 4",
    "4 in range(n)": "n > 4",
    "range(n) == range(4)": "n != 4",
    "x.shape == (4, 3)": "n != 4",
    "n.__class__ is int": "",
    "own_isinstance(n, int)": "",
    "own_isinstance(n > 4, bool)": "",
    "isinstance(n, numbers.Integral)": "",
    "max(n > 4, 0)": "",
    "max(n > 4, m > 4, 0)": "n > 4",
    "min(n > 4, True)": "",
    "[0, 1][n > 4]": "n > 4",
    "~(n > 4) + 2": "n > 4",
    "-(n > 4)": "n > 4",
    "(n > 4) | 2": "n > 4",
    "(n > 4) < (m > 2)": "n > 4",
    "sorted(x.shape)[0] == m": "m < n",
}
#: What belongs to one size, so that no condition is enough.
REFUSED = {
    "n in {4, 6}": "as a key",
    "TABLE.get(n)": "as a key",
    "remembered(n)": "as a key",
    "torch.from_numpy(np.arange(n))[:, None]": "an array of numpy that holds objects",
    "(1j * n)": "makes a complex number of a size",
    "(n / 3 + 2j)": "makes a complex number of a size",
    "f'{n}' == '4'": "depends on the text",
    "str(tuple(x.shape)) == '(4, 3)'": "depends on the text",
}
GLOBALS = {
    "FOUR": FOUR, "TABLE": {4: 1}, "np": np, "torch": torch, "operator": operator, "numbers": numbers,
    "own_isinstance": isinstance, "remembered": functools.lru_cache(lambda n: n == 4),
}  # fmt: skip


def asking(question: str) -> Callable[[torch.Tensor], torch.Tensor]:
    scope: dict[str, Any] = dict(GLOBALS)
    exec(f"def program(x):\n    n, m = x.shape\n    return x * ({question})", scope)
    program: Callable[[torch.Tensor], torch.Tensor] = scope["program"]
    return program


def export(program: Callable[..., Any]) -> onnx_parity.ONNXProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnx_parity.export(program, (torch.ones(5, 3),), dynamic_shapes=({0: "n", 1: "m"},))


@pytest.mark.parametrize("question", ASKED)
def test_is_right_where_the_conditions_hold(question: str) -> None:
    program = asking(question)
    exported = export(program)
    conditions = [each.condition for each in exported.assumptions]
    assert (ASKED[question] in conditions) if ASKED[question] else not conditions
    for n, m in ((5, 3), (4, 3), (6, 3), (2, 2), (7, 5), (1, 6)):
        if all(each.holds_for({"n": n, "m": m}) for each in exported.assumptions):
            x = torch.ones(n, m)
            assert torch.equal(exported(x), program(x)), (n, m)
    assert not records_here()


def test_complex_numbers_of_a_size_as_the_refusal_advises() -> None:
    program = asking("(torch.tensor(n) * 1j)")
    exported = export(program)
    assert not exported.assumptions
    for n in (0, 1, 2, 7):
        x = torch.ones(n, 3)
        assert torch.equal(exported(x), program(x))


@pytest.mark.parametrize("question", REFUSED)
def test_what_belongs_to_one_size_is_refused(question: str) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=REFUSED[question]):
        export(asking(question))


def test_case_of_a_class() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        match x.shape[0]:
            case int(7):
                return x * 3
            case int():
                return x * 2
        return x

    exported = export(program)
    assert not exported.assumptions
    assert torch.equal(exported(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    assert torch.equal(exported(torch.ones(7, 2)), torch.full((7, 2), 3.0))


def test_sizes_that_a_text_is_about_may_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        print(f"{x.shape[0]} rows")
        return x * 2

    assert not export(program).assumptions
    assert "5 rows" in capsys.readouterr().out


# --- the code that asks -----------------------------------------------------------------------------------------------


class Same:
    """`is`, which counts how often it is asked."""

    asked = 0

    def __call__(self, one: Any, other: Any) -> bool:
        self.asked += 1
        return one is other


def first_of(values: list[object], wanted: object) -> tuple[int, int]:
    """Many jumps, an error that is caught, and numbers that need more than one byte."""
    line = steps = 0
    while True:
        for each in values:
            steps += 1
            try:
                if each is not wanted or (each is values and wanted is values):
                    continue
                raise LookupError
            except LookupError as error:
                line = getattr(error.__traceback__, "tb_lineno", 0)
                return steps, line
        values = [*values, wanted]


def all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from all_codes(const)


def test_code_that_asks_does_the_same() -> None:
    same, wanted = Same(), object()
    handled: list[BaseException] = []

    def caught(error: BaseException) -> bool:
        handled.append(error)
        return False

    for count in (0, 1, 400):
        values: list[object] = [object() for _ in range(count)]
        expected = first_of(values, wanted)
        own = first_of.__code__
        first_of.__code__ = code_asking(own, same, caught)
        try:
            assert first_of(values, wanted) == expected
        finally:
            first_of.__code__ = own
    assert same.asked > 400
    assert {*map(type, handled)} == {LookupError}


def test_jumps_and_lines_of_long_code() -> None:
    lines = [f"        if a is b: total += {number}\n        elif a is c: total -= 1" for number in range(400)]
    source = "def program(a, b, c):\n    total = 0\n    for _ in range(2):\n" + "\n".join(lines) + "\n    return total"
    scope: dict[str, Any] = {}
    exec(source, scope)
    program = scope["program"]
    (own,) = [each for each in all_codes(program.__code__) if compares_by_identity(each)]
    before = program(1, 1, 2), program(1, 2, 1), program(1, 2, 3)
    changed = program.__code__ = code_asking(own, Same(), None)
    assert (program(1, 1, 2), program(1, 2, 1), program(1, 2, 3)) == before
    assert {line for *_, line in changed.co_lines()} == {line for *_, line in own.co_lines()}
