"""Options of benchmarks: a name that matches nothing is an error with those that there are, and no empty success; what
was measured is kept in a file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.options import Kept, choose, search

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


def test_what_was_measured_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    first: Kept[int | str] = Kept(path, int | str)
    first.add("bert", 3)
    first.add("gpt2", "it failed")
    again: Kept[int | str] = Kept(path, int | str)
    assert (again["bert"], again["gpt2"]) == (3, "it failed")
    assert "llama" not in again


def test_without_a_file_it_is_kept_in_memory() -> None:
    kept: Kept[int] = Kept(None, int)
    kept.add("bert", 3)
    assert kept["bert"] == 3


@pytest.mark.parametrize("line", ['{"key": "bert", "value": [1]}', "{}", "not JSON"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(typer.BadParameter, match="holds other measurements than this command"):
        Kept(path, int)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="name a file in a folder that exists"):
        Kept(tmp_path / "no folder" / "kept.jsonl", int)
