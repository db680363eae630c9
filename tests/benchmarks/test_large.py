"""The benchmark of a model of several gigabytes: its table, without running it."""

from __future__ import annotations

import io

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from benchmarks import large
from benchmarks.jobs import Failure, Memory
from benchmarks.models import MODELS
from benchmarks.subjects import Contender


def test_the_table_has_time_and_memory_of_each_exporter() -> None:
    outcomes: dict[Contender, Memory | Failure] = {
        Contender.OURS: Memory(weights=1_000_000_000, extra=20_000_000, seconds=1.5),
        Contender.DYNAMO: Failure("killed"),
    }
    console = Console(width=120, file=io.StringIO())
    console.print(large.render("wide", outcomes))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "1.5" in text and "20 MB" in text and "0.020" in text and "killed" in text


@pytest.mark.parametrize(("extra", "code"), [(50, 0), (150, 1)])
def test_the_target_decides_the_exit_code(extra: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    app.command()(large.main)
    monkeypatch.setattr(large, "measure", lambda model, folder: {Contender.OURS: Memory(weights=1000, extra=extra)})
    assert CliRunner().invoke(app, []).exit_code == code
    result = CliRunner().invoke(app, ["--model", "elu"], env={"COLUMNS": "1000"})
    assert result.exit_code == 2 and "nothing matches 'elu'; there are wide" in result.output


def test_large_models_are_not_measured_with_the_others() -> None:
    from benchmarks.__main__ import SMALL

    assert "wide" not in SMALL and set(SMALL) < set(MODELS)
