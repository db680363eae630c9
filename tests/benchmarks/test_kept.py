"""Tests of measurements that are kept in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from benchmarks.options import Kept


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
