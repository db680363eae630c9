"""`parity sensitivity`: what it lists, as text, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.forked import run

CASES = """
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

elu_of_positives = op(F.elu, floats(2, 3, low=0), alpha=[0.5])
celu_of_all = op(F.celu, floats(2, 3), alpha=0.5)
"""

#: Cases that cannot be asked what they tell.
CASES_OF_NOISE = """
import torch
from onnx_parity.harness.case import floats, op

def _refused(x):
    raise RuntimeError("no such thing")

noise = op(torch.rand_like, floats(2, 3))
refused = op(_refused, floats(2, 3))
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of declarations, in the folder in which the command is run."""
    found = tmp_path / "cases_of_it.py"
    found.write_text(CASES)
    monkeypatch.chdir(tmp_path)
    return found.name


def printed(*arguments: str, code: int) -> str:
    """What the command prints, in a process of its own, as it forks those that look at cases."""
    ended = run(Path.cwd(), "parity", "sensitivity", *arguments)
    assert ended.code == code, ended.text
    return ended.text.lstrip()  # The progress bar leaves an empty line.


def test_what_no_case_tells_is_listed(file: str) -> None:
    assert printed(file, code=1).splitlines() == [
        "not told in float32: elu(alpha) has its default",
        "    by elu_of_positives[alpha=0.5]",
        "    what would tell: inputs for which its value makes a difference, or another value",
        "2 cases and dtypes; 2 alterations of 2 operators, 1 of them told in each dtype that has them",
    ]


@pytest.mark.slow
def test_what_no_case_could_tell_has_a_reason(file: str) -> None:
    reasons = Path("untold.toml")
    reasons.write_text('"elu(alpha) has its default" = "of positive numbers it makes no difference"')
    [line] = printed(file, code=0).splitlines()
    assert line.endswith("1 of them told in each dtype that has them, 1 explained in untold.toml")
    reasons.write_text('"celu(alpha) has its default" = "it is told"')
    outdated = "celu(alpha) has its default: a case tells it now. Remove it from untold.toml."
    assert printed(".", code=1).splitlines()[-1] == outdated
    # There may be other cases, for which the reason is given.
    assert outdated not in printed(file, "celu*", code=0)
    reasons.write_text("reason = 1")
    assert "untold.toml: Expected `str`, got `int`" in printed(file, code=2)


def test_the_table_of_operators(file: str) -> None:
    lines = printed(file, "celu*", "--table", code=0).splitlines()
    assert lines[:2] == ["celu                     float32", "(alpha) has its default        1"]


def test_an_operator_as_json(file: str) -> None:
    found = json.loads(printed(file, "--operator", "elu", "--json", code=1))
    assert found["not_looked_at"] == []
    [row] = found["rows"]
    assert (row["operator"], row["parameter"], row["told"]) == ("elu", "alpha", {})
    assert row["blind"] == {"float32": ["elu_of_positives[alpha=0.5]"]}


def test_names_that_nothing_has(file: str) -> None:
    assert "No case of an operator is named no_such." in printed(file, "no_such", code=2)
    assert "None of these cases calls selu of torch" in printed(file, "--operator", "selu", code=2)


def test_if_no_case_can_be_looked_at_nothing_is_told(file: str) -> None:
    Path(file).write_text(CASES_OF_NOISE)
    assert printed(file, code=2).splitlines() == [
        "No case could be looked at, so nothing is known of what they tell.",
        "not looked at: noise float32: its results are other ones each time",
        "not looked at: refused float32: it cannot be run: no such thing",
    ]
    Path(file).write_text(CASES + CASES_OF_NOISE)
    assert "not looked at: noise float32: its results are other ones each time" in printed(file, "n*", "celu*", code=0)
