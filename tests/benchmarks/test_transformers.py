"""Benchmarks of transformers: which classes are right, where that goes on, its page; and what models choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.classes_of_transformers import __main__ as benchmark
from benchmarks.classes_of_transformers.page import written_page
from benchmarks.classes_of_transformers.skipped import SKIPPED
from benchmarks.classes_of_transformers.trying import Outcome, Result
from benchmarks.generation import __main__ as generation

_FOUND = [
    Result("AModel", "static", Outcome.RIGHT, "", 1.0),
    Result("AModel", "dynamic", Outcome.REFUSED, "CaptureError at /home/me/site-packages/a/b.py:3: c | d", 1.0),
    Result("BModel", "static", Outcome.NOT_RUN, "no", 0),
]


def test_a_call_goes_on_after_what_an_earlier_one_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def results(names: Sequence[str], opset: int) -> Iterator[Result]:
        asked.append(names)
        return (each for each in _FOUND if each.name in names)

    monkeypatch.setattr(benchmark, "class_names", lambda: ["AModel", "BModel"])
    monkeypatch.setattr(benchmark, "_results", results)
    app = typer.Typer()
    app.command()(benchmark.main)
    for most in ("1", "2"):
        called = CliRunner().invoke(app, ["--most", most, "--output", str(tmp_path / "found")])
        assert called.exit_code == 0, called.output
    assert asked == [["AModel"], ["BModel"]]
    assert benchmark._written(tmp_path / "found") == _FOUND


def test_the_page_has_each_class_that_is_not_right() -> None:
    page = written_page(_FOUND)
    assert "| static | 1 | 1 |" in page and "| dynamic | 1 | 0 |" in page
    assert "| AModel | dynamic | refused | CaptureError at a/b.py:3: c \\| d |" in page
    assert "1 more classes" in page and "them:\nBModel." in page


def test_the_page_has_the_classes_that_transformers_skips() -> None:
    name = SKIPPED["torch.export fails"][0]
    found = [
        Result(name, "static", Outcome.RIGHT, "", 1.4),
        Result(name, "dynamic", Outcome.REFUSED, "CaptureError: no", 2.4),
    ]
    assert f"| {name} | torch.export fails | right | refused | 4 s |" in written_page(found)
    assert "exporter skips" not in written_page(_FOUND)


@pytest.mark.parametrize("equal", [64, 60])
def test_a_token_that_is_not_eager_s_is_a_failure(equal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def exported(subject: str, merged: bool, opset: int, target: str | None) -> Any:
        if subject == "phi3, static" and not merged:
            raise ValueError("no such thing")
        return subject

    monkeypatch.setattr(generation, "subject_of", lambda name, cache: f"{name}, {cache}")
    monkeypatch.setattr(generation, "exported", exported)
    monkeypatch.setattr(generation, "equal_tokens", lambda subject, calls, batch, count: (equal * batch, count * batch))
    called = CliRunner().invoke(generation.app, ["--models", "qwen2"])
    assert called.exit_code == (equal < 64), called.output
    assert f"{equal} of 64" in called.output and f"{3 * equal} of 192" in called.output
    called = CliRunner().invoke(generation.app, ["--models", "phi3"])
    assert called.exit_code == 1 and "phi3, static: ValueError: no such thing" in called.output
