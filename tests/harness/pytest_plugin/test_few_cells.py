"""Whether a command line selects few cells: the answer must not be yes for many, and a yes means one process."""

from __future__ import annotations

from pathlib import Path

import pytest

import start
from onnx_parity.harness.pytest_plugin.few_cells import are_few
from tests.forked import run

ROOT = Path(start.__file__).parent
_CASES = """
import torch
from onnx_parity.harness.case import floats, model, op

sine = op(torch.sin, floats(2, 3))
waves = op(lambda x, f: f(x), floats(2, 3), f=[torch.sin, torch.cos])
layer = model(torch.nn.Linear, floats(2, 3), in_features=3, out_features=[*range(1, 20)])
quick = model(torch.nn.Linear, floats(2, 3), in_features=3, out_features=[1, 2, 3], tier="smoke")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "cases_to_count.py"
    path.write_text(_CASES)
    return path


@pytest.mark.usefixtures("imports_as_before")
@pytest.mark.parametrize(
    ("keyword", "options", "few"),
    [
        ("sine", {}, True),
        ("SINE and opset9", {}, True),
        ("layer", {}, False),
        ("quick", {}, True),
        ("layer and opset9 and cpu", {}, True),
        ("", {}, False),
        ("", {"opsets": "9", "devices": "cpu"}, True),
        # What is no list of words selects any cell, as far as is known.
        ("sine or layer", {}, False),
        ("not layer", {}, False),
        ("(sine)", {}, False),
        ("sine", {"tier": "full", "captures": "trace,script,exported_program"}, False),
        ("sine", {"opsets": "none"}, True),
    ],
)
def test_few_cells(file: Path, keyword: str, options: dict[str, str], few: bool) -> None:
    def value_of(name: str) -> str | None:
        return options.get(name)

    assert are_few([file], keyword, value_of) is few


def test_a_file_of_many_declarations_is_not_imported(file: Path) -> None:
    file.write_text("\n".join(f"name{number} = 1 / 0" for number in range(30)))
    assert not are_few([file], "", lambda name: None)


@pytest.mark.parametrize("text", ["import nothing_of_this_name", "x = = 1", "1 / 0"])
def test_what_cannot_be_imported_is_left_to_pytest_to_report(file: Path, text: str) -> None:
    file.write_text(text)
    assert are_few([file], "sine", lambda name: None)


@pytest.mark.slow
def test_a_run_of_few_cells_has_no_workers(file: Path) -> None:
    ran = run(file.parent, "parity", "run", file.name, "-k", "sine and opset9", "--no-report", PYTHONPATH=str(ROOT))
    assert ran.code == 0, ran.text
    assert "-n auto" in ran.text
    # With workers, pytest prints their number.
    assert "workers" not in ran.text
    assert "1 of 2 cells: 1 passed" in ran.text or "1 cell: 1 passed" in ran.text
