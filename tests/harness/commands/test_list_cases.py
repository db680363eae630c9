"""`parity list`: the files that it imports, patterns, and mistakes in declarations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onnx_parity.harness import cli

_WAVES = """
import torch
from onnx_parity.harness.case import floats, op

def other(x):
    cosine = torch.cos(x)
    return cosine

sine = op(torch.sin, floats(2, 3))
waves = op(lambda x, f: f(x), floats(2, 3), f=[torch.sin, torch.cos])
"""
_COSINES = """
import torch
from onnx_parity.harness.case import floats, op

cosine = op(torch.cos, floats(2, 3))
"""
_HIDDEN = """
import torch
from onnx_parity.harness.case import floats, op

for number in (1, 2):
    globals()[f"tangent_{number}"] = op(torch.tan, floats(number))
"""
_BROKEN = """
import torch
from onnx_parity.harness.case import op

tan = op(torch.tan, (2, 3))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "cases_to_list"
    folder.mkdir()
    for name, text in (("__init__", ""), ("waves", _WAVES), ("cosines", _COSINES)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "pyproject.toml").write_text(f"[tool.parity]\ndeclarations = ['{folder.name}']\n")
    yield folder
    for module in imported():
        del sys.modules[f"cases_to_list.{module}"]
    sys.modules.pop("cases_to_list", None)


def imported() -> set[str]:
    return {name.partition(".")[2] for name in sys.modules if name.startswith("cases_to_list.")}


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["list", *arguments])
    return result.exit_code, result.output


def test_files_that_declare_nothing_of_the_name_are_not_imported(folder: Path) -> None:
    code, text = invoke("cos*")
    assert (code, text.splitlines()[0]) == (0, "cosine     7 cells  cases_to_list/cosines.py:5")
    assert imported() == {"cosines"}
    assert invoke("*ne")[1].count("cases_to_list/") == 2
    assert imported() == {"cosines", "waves"}


def test_a_file_that_may_declare_any_name_is_imported(folder: Path) -> None:
    (folder / "hidden.py").write_text(_HIDDEN)
    assert invoke("tangent_2")[0] == 0
    assert imported() == {"hidden"}


def test_the_brackets_of_a_label_stand_for_themselves(folder: Path) -> None:
    code, text = invoke("waves[f=cos]", "--tier", "smoke")
    assert (code, text.splitlines()[-1]) == (0, "1 case, 2 cells")
    assert text.startswith("waves[f=cos]  ")


def test_an_unknown_name_is_reported_with_the_nearest(folder: Path) -> None:
    assert invoke("cosines") == (2, "No case of cases_to_list/ is named cosines. Similar names: cosine, sine.\n")
    assert invoke("sine", "--tier", "full", "--opsets", "9")[0] == 0


def test_a_mistake_in_a_declaration_is_reported_in_one_line(folder: Path) -> None:
    (folder / "broken.py").write_text(_BROKEN)
    code, text = invoke("tan")
    assert (code, len(text.splitlines())) == (2, 1)
    assert text.startswith(
        f"{folder / 'broken.py'}:5: the input (2, 3) is a shape, but an input is a maker of a tensor."
    )


def test_the_list_waits_for_nothing_that_it_does_not_need() -> None:
    """Torch is imported by the files that declare the cases, so before them nothing else that takes long may be."""
    slow = {"torch", "onnx", "onnxruntime", "numpy", "pytest", "pyarrow", "jinja2", "hypothesis"}
    program = f"import sys, onnx_parity.harness.cli\nprint(sorted({slow} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout == "[]\n"


def test_a_file_that_cannot_be_imported_and_a_place_without_declarations(folder: Path) -> None:
    for name, line, why in (
        ("unfinished", "tan = = 3", "4: SyntaxError: invalid syntax"),
        ("dividing", "tan = op(torch.tan, floats(1 // 0))", "4: ZeroDivisionError: integer division or modulo by zero"),
    ):
        file = folder / f"{name}.py"
        file.write_text(f"import torch\nfrom onnx_parity.harness.case import floats, op\n\n{line}\n")
        assert invoke("tan") == (2, f"{file.relative_to(Path.cwd()) if name == 'dividing' else file}:{why}\n")
        file.unlink()
    (folder / "empty").mkdir()
    assert invoke("cases_to_list/empty") == (2, "There are no declarations in cases_to_list/empty/.\n")
