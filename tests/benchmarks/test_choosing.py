"""What a benchmark is asked for by name: what matches nothing is an error with the names, and no empty success."""

from __future__ import annotations

from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.options import choose, search

KNOWN = ("elu", "relu", "celu")


def test_patterns_choose_names_in_their_order() -> None:
    assert choose("--only", None, KNOWN) == choose("--only", [], KNOWN) == list(KNOWN)
    assert choose("--only", ["relu", "e*"], KNOWN) == ["elu", "relu"]
    assert search("--only", "^.elu|lu$", KNOWN) == list(KNOWN)


@pytest.mark.parametrize("asked", [["selu"], ["elu", "s*"]])
def test_each_pattern_has_to_match(asked: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match=rf"nothing matches '{asked[-1][0]}.*; there are elu, relu, celu"):
        choose("--only", asked, KNOWN)


def test_a_long_list_of_names_is_cut() -> None:
    with pytest.raises(typer.BadParameter, match=r"there are 0, 1, .*, 39, and 60 more$"):
        search("--only", "x", map(str, range(100)))


def test_what_is_no_regular_expression_is_told() -> None:
    with pytest.raises(typer.BadParameter, match=r"'\(' is no regular expression: "):
        search("--only", "(", KNOWN)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("conformance.__main__", ["--runner"]),
        ("at_scale.__main__", [".", "--only"]),
        ("faults.in_the_harness", ["--only"]),
        ("latency.__main__", ["--models"]),
        ("mutants.others", ["--operator"]),
        ("number_of_nodes.__main__", ["--kinds"]),
        ("real_defects.__main__", ["--only"]),
        ("verification.__main__", ["--only"]),
    ],
)
def test_a_command_that_is_asked_for_nothing_that_is_there_ends_with_2(module: str, words: list[str]) -> None:
    app = typer.Typer()
    app.command()(import_module(f"benchmarks.{module}").main)
    result = CliRunner().invoke(app, [*words, "no such name"], env={"COLUMNS": "1000"})
    assert result.exit_code == 2
    assert "nothing matches 'no such name'; there are " in result.output
