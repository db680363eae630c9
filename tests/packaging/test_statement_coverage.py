"""The measurement of coverage: which statements a note counts, and that a note does not change what a function does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import statement_coverage
from tests.statement_coverage import floor, shares, total, with_notes

_SOURCE = '''
def sign(x):
    """A docstring is no statement."""
    y = x
    if y > 0:
        return 1
    elif y < 0:
        return -1
    y = 0
    return y

class Box:
    def filled(self):
        try:
            value = self.value
        except AttributeError:
            return False
        return value is not None
'''


def ran(call: str) -> tuple[object, list[int]]:
    """The result of a call of what `_SOURCE` defines, and how many statements each note counts that was reached."""
    tree, counts = with_notes(_SOURCE)
    notes = bytearray(len(counts))
    names: dict[str, object] = {"__statements_that_ran__": notes}
    exec(compile(tree, "source.py", "exec"), names)
    result = eval(call, names)
    assert sum(counts) == 11
    return result, [count for count, note in zip(counts, notes, strict=True) if note]


@pytest.mark.parametrize(
    ("call", "result", "counted"),
    [
        ("sign(5)", 1, [2, 1]),  # Up to the branch, and the branch.
        ("sign(-5)", -1, [2, 1, 1]),
        ("sign(0)", 0, [2, 2, 1]),
        ("Box().filled()", False, [1, 1, 1]),
    ],
)
def test_statements_that_run_are_counted(call: str, result: object, counted: list[int]) -> None:
    found, counts = ran(call)
    assert found == result
    assert sorted(counts) == sorted(counted)


def test_lines_of_errors_stay_as_they_are() -> None:
    tree, _ = with_notes(_SOURCE)
    plain = [node.lineno for node in ast.walk(ast.parse(_SOURCE)) if isinstance(node, ast.Return)]
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return)] == plain


def test_what_was_not_imported_counts_as_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEMENTS_THAT_RAN", str(tmp_path))
    monkeypatch.setattr(statement_coverage, "MEASURED", ("exporter/graph",))
    assert {folder: number for folder, (number, _) in shares().items()} == {"exporter/graph": 0}
    assert total(shares()) == 0 < floor() <= 100
