"""Code that is written down so that loops end at their heads does what the program does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest

from onnx_parity.exporter.torch_inside.code_objects import cells_of, code_of
from onnx_parity.exporter.torch_inside.loops.structured_code import structured


def _run_once(to_the_end: bool, is_asked: bool) -> Iterator[None]:
    return iter([None])


def _returns(n: int, m: int) -> int:
    for i in range(n):
        if i == m:
            return i
    return -1


def _else(n: int, m: int) -> tuple[bool, int]:
    found = False
    for i in range(n):
        if i == m:
            found = True
            break
    else:
        m = 100
    return found, m


def _nested(n: int, m: int) -> Any:
    made: list[Any] = []
    for i in range(n):
        for j in range(m):
            if i == j:
                continue
            if i + j > 5:
                return made, i
            if i * j > 4:
                break
            made.append((i, j))
        else:
            made.append("else")
            if i == 3:
                break
        if i % 2:
            continue
        made.append(i)
    else:
        made.append("end")
    return made


def _three(n: int, m: int) -> Any:
    for i in range(n):
        for j in range(m):
            for k in range(2):
                if i + j + k == 4:
                    return i, j, k
                if k == m:
                    break
            else:
                continue
            break
    return "none"


def _while(n: int, m: int) -> Any:
    i = 0
    while i < n or i < m:
        i += 1
        if i == 5:
            break
    else:
        return "else", i
    return i


def _while_true(n: int, m: int) -> int:
    while True:
        if n > 5:
            return n
        n += 1
        if m > n:
            continue
        m += 2


def _while_true_that_breaks(n: int, m: int) -> Any:
    made: list[Any] = []
    while True:
        if n > 5:
            made.append("end")
            break
        n += 1
        if n == m:
            return made
        made.append(n)
    return made, n


def _tries(n: int, m: int) -> Any:
    if n > 3:
        return 1
    if m == 2:
        n = 7
    elif m == 3:
        return "three"
    numbers = [k for k in range(n) if k != m]
    try:
        for k in numbers:
            if k == 4:
                return k
        1 / m
    except ZeroDivisionError:
        return "zero"
    finally:
        numbers.append(1)
    return numbers


def _contexts(n: int, m: int) -> Any:
    noted = []

    @contextlib.contextmanager
    def noting() -> Iterator[None]:
        noted.append("in")
        try:
            yield
        finally:
            noted.append("out")

    for i in range(n):
        with noting():
            if i == m:
                break
            if i == 5:
                return noted

    def inner(most: int) -> int:
        for i in range(most):
            if i == m:
                return i
        return 0

    return noted, inner(n)


def _matches(n: int, m: int) -> Any:
    for i in range(n):
        match i:
            case 1:
                continue
            case 3:
                break
            case 4:
                return "four"
    return i if n and m else m


def _nothing(n: int, m: int) -> None:
    if n == m:
        n += 1


def _raises(n: int, m: int) -> None:
    for i in range(n):
        if i == m:
            raise ValueError(i)


_FUNCTIONS = [
    _returns, _else, _nested, _three, _while, _while_true, _while_true_that_breaks, _tries, _contexts, _matches,
    _nothing, _raises, lambda n, m: n * 2 if n > m else [each for each in range(m) if each != n],
]  # fmt: skip


class _Says:
    def __init__(self, says: Any) -> None:
        self._says = says

    def __bool__(self) -> bool:
        return bool(self._says)


def _outcome(function: Callable[..., Any], n: int, m: int) -> Any:
    try:
        return function(n, m)
    except (ValueError, KeyError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("function", _FUNCTIONS, ids=lambda function: function.__name__)
def test_does_what_the_function_does(function: Callable[..., Any]) -> None:
    assert isinstance(function, FunctionType)
    code = structured(code_of(function), _run_once, _Says)
    assert code is not None
    made = FunctionType(code, globals(), "made", None, cells_of(function))
    for n in range(8):
        for m in range(5):
            assert _outcome(made, n, m) == _outcome(function, n, m)


def _generator(n: int) -> Iterator[int]:
    for i in range(n):
        if i == 3:
            return
        yield i


def _ends_in_finally(n: int) -> int:
    for i in range(n):
        try:
            n += i
        finally:
            break  # noqa: B012
    return n


@pytest.mark.parametrize("function", [_generator, _ends_in_finally])
def test_what_is_not_written_otherwise(function: Callable[..., Any]) -> None:
    assert structured(code_of(function), _run_once, _Says) is None


def test_no_code_whose_text_is_another_one() -> None:
    space: dict[str, Any] = {}
    exec(compile("def made(n):\n    return n", __file__, "exec"), space)
    assert structured(code_of(space["made"]), _run_once, _Says) is None
