"""Queries of a run: valid conditions and their results, and the errors of invalid ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness import cli
from onnx_parity.harness.record import Metrics, Stage, Status
from onnx_parity.harness.results.query import QueryError, parse
from tests.records import RECORD, write_run

CLOSE = Metrics(1e-7, 1e-7, 0.0, 1.0, 2.0, 1.5, 1e-6, 0, (0,), 1.0, 1.0)
RECORDS = [
    replace(RECORD, cell="a", seconds={"export": 0.2}, metrics=CLOSE, aten=("aten::elu",)),
    replace(RECORD, cell="b[k=0]", opset=13, status=Status.FAILED, stage=Stage.COMPARE, reason="off by 3"),
    replace(RECORD, cell="c", opset=20, status=Status.FAILED, stage=Stage.LOAD, reason="no kernel"),
]


@pytest.mark.parametrize(
    ("question", "cells"),
    [
        ("True", ["a", "b[k=0]", "c"]),
        ('stage == "compare" and opset < 14', ["b[k=0]"]),
        ('status != "passed"', ["b[k=0]", "c"]),
        ("9 <= opset < 20", ["a", "b[k=0]"]),
        ("opset in (13, 20) and not opset == 20", ["b[k=0]"]),
        ("metrics.headroom < 2", ["a"]),
        ("metrics.headroom >= 2", []),
        ("metrics is None", ["b[k=0]", "c"]),
        ('seconds["export"] * 1000 > 100', ["a"]),
        ('"aten::elu" in aten', ["a"]),
        ('like(cell, "b[*]")', ["b[k=0]"]),
        (r'matches(reason, "by \\d")', ["b[k=0]"]),
        ('"kernel" in reason or cell == "a"', ["a", "c"]),
        ("opset - 7 == -1 + 3", ["a"]),
    ],
)
def test_what_holds_is_found(question: str, cells: list[str]) -> None:
    assert [record.cell for record in parse(question).of(RECORDS)] == cells


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("opst < 11", "opst < 11: a record has no field 'opst'. Did you mean 'opset'?"),
        ("metrics.headrom < 1", "metrics.headrom < 1: metrics have no field 'headrom'. Did you mean 'headroom'?"),
        ("stage = 'compare'", "stage = 'compare': invalid syntax"),
        ("", ": invalid syntax"),
        (
            "cell.startswith('a')",
            "is not supported in a condition. Write a condition such as: stage == 'compare' and opset < 11",
        ),
        ("__import__('os')", "is not supported in a condition."),
        ("like(cell)", "is not supported in a condition."),
        ("[x for x in aten]", "is not supported in a condition."),
        ("cell.__class__", "is not supported in a condition."),
    ],
)
def test_invalid_conditions_are_refused(question: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        parse(question)
    assert message in str(error.value)


@pytest.mark.parametrize("question", ["opset < 'a'", "matches(reason, '(')", "opset / 0 > 1", "like(opset, 'a')"])
def test_errors_of_evaluation_name_the_record(question: str) -> None:
    with pytest.raises(QueryError, match=r"when evaluated for a\."):
        list(parse(question).of(RECORDS))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ('"a" * 1000000000 * 10 == cell', "only numbers are multiplied, when evaluated for a. "),
        ("[1] * 1000000000 == 3", "only numbers are multiplied, when evaluated for a. "),
        ("1e300 * " * 3 + str(10**400) + " > 1", "int too large to convert to float, when evaluated for a. "),
        ("not " * 5000 + "True", "the condition has 20,004 characters, but may have 10,000. "),
        ("not " * 2000 + "True", "the condition is nested more than 50 deep. "),
        ("(" * 2000 + "1" + ")" * 2000, " "),
        ("1" + " + 1" * 2000, "the condition is nested more than 50 deep. "),
        ("-" * 5000 + "1", "the condition is nested more than 50 deep. "),
        ("cell == '\0'", " null bytes"),
        ("9" * 5000 + " > 1", "Exceeds the limit"),
        ('matches(reason, "(a+)+$")', "a repeated part must not contain another repeat or a choice, as in (a+)+ "),
        ('matches(reason, "(?:a|aa)*b")', "a repeated part must not contain another repeat or a choice"),
        ('matches(reason, "((x*)y*)*")', "a repeated part must not contain another repeat or a choice"),
        (f'matches(reason, "{"a" * 600}")', "a pattern has at most 500 characters"),
    ],
)
def test_a_question_that_would_take_forever(question: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        list(parse(question).of(RECORDS))
    assert message in str(error.value)


@pytest.mark.parametrize("pattern", [r"by \\d+", r"^(off|no) .*", r"(of{1,2}) by", r"[a-z ]*\\d"])
def test_usual_patterns_are_not_refused(pattern: str) -> None:
    assert [record.cell for record in parse(f'matches(reason, "{pattern}")').of(RECORDS)][:1] == ["b[k=0]"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path, RECORDS)


def query(run: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["query", "--run", str(run), *arguments])
    return result.exit_code, result.output


def test_the_command_shows_cells_fields_records_and_counts(run: Path) -> None:
    assert query(run, "opset > 9") == (
        0,
        "b[k=0]  failed  compare  off by 3\nc  failed  load  no kernel\n2 cells\n",
    )
    assert query(run, "opset == 9", "--fields", "opset,metrics.headroom,seconds.export,blame") == (
        0,
        "9  1.5  0.2\n1 cell\n",
    )
    assert query(run, "opset > 9", "--count") == (0, "2 cells\n")
    line = query(run, "opset == 13", "--json")[1].splitlines()[0]
    assert msgspec.json.decode(line)["cell"] == "b[k=0]"


def test_the_command_refuses_what_makes_no_sense(run: Path, tmp_path: Path) -> None:
    assert query(run, "opst == 1") == (2, "opst == 1: a record has no field 'opst'. Did you mean 'opset'?\n")
    code, text = query(run, "True", "--fields", "cel")
    assert (code, text.startswith("--fields cel: a record has no field 'cel'. It has cell, case")) == (2, True)
    code, text = query(tmp_path, "True")
    assert (code, text) == (2, f"{tmp_path} is not a run: it has no run.json. `parity run` makes one.\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("status == 'passsed'", "status is never 'passsed'. Did you mean 'passed'?"),
        ("opset < 9 and not 'zzz' != stage", "stage is never 'zzz'. It is one of build, reference, export, "),
        ("dtype in ['float32', 'flaot16']", "dtype is never 'flaot16'. Did you mean 'float16'?"),
    ],
)
def test_a_value_that_no_record_can_have_is_refused(text: str, told: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse(text)
    assert str(raised.value).startswith(f"{text}: {told}")


@pytest.mark.parametrize("text", ["blame == None", "runtime == 'mine'", "'pas' in status", "shapes in ('static',)"])
def test_values_that_a_record_may_have_are_not(text: str) -> None:
    assert parse(text).text == text
