"""docs/surface.md and docs/api.md: they agree with the code, are complete, and name existing tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

import onnx_parity
import start
from documents.__main__ import PAGES, app
from documents.public_api import RELEASED, broken, signatures
from documents.surface_page import SurfaceName, exists, rows
from documents.torch_onnx_names import DOCUMENTED, TORCH, offered, torchs
from onnx_parity.harness import cli

ROOT = Path(start.__file__).parent
DOCUMENTED_ROWS, TODAY = rows() if torch.__version__.startswith(f"{TORCH}.") else ([], [])
pytestmark = pytest.mark.skipif(not TODAY, reason=f"the page lists the names of torch {TORCH}")


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_what_the_code_says(page: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pages", str(tmp_path)])
    assert result.exit_code == 0
    assert (ROOT / "docs" / page).read_text() == (tmp_path / page).read_text(), "run `python -m documents pages`"


@pytest.mark.parametrize("row", [*DOCUMENTED_ROWS, *TODAY], ids=lambda row: row.spelled)
def test_rows_hold(row: SurfaceName) -> None:
    """What is here has a test, and a signature that takes it; what is not has a reason."""
    if row.why:
        assert len(row.why) > 20
        return
    assert exists(row.test, ROOT), row.test
    if row.group not in ("symbolic functions", "ExportableModule"):
        assert offered(row.group, row.name)


def test_every_name_has_a_row() -> None:
    names = {(group, name) for part in (DOCUMENTED, torchs()) for group, each in part.items() for name in each or ("",)}
    assert {(row.group, row.name) for row in (*DOCUMENTED_ROWS, *TODAY)} == names
    assert len(names) > 80


def test_tests_that_are_gone_are_noticed() -> None:
    assert exists("tests/packaging/test_surface.py", ROOT)
    assert exists("tests/packaging/test_surface.py::test_every_name_has_a_row", ROOT)
    assert not exists("tests/packaging/test_surface.py::test_nothing", ROOT)
    assert not exists("tests/packaging/test_nothing.py", ROOT)


def test_the_reference_names_all_that_is_public() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    assert [name for name in onnx_parity.__all__ if f"onnx_parity.{name}" not in text] == []
    assert re.findall(r" at 0x[0-9a-f]+", text) == []


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pages", str(tmp_path / "none")])
    assert (result.exit_code, result.output) == (
        2,
        f"The pages cannot be written to {tmp_path}/none: there is no such folder. Create it, or name another one.\n",
    )


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("op_cases/none.py", "cannot be surveyed: there is no such file. Name a file that declares OpInfo entries."),
        ("op_cases/activation.py", "cannot be surveyed: it declares no OpInfo entries."),
        (
            __file__,
            f"cannot be imported from {ROOT / 'docs'}, because it is outside of that folder. Run this in the root of "
            f"its project.",
        ),
    ],
    ids=["no file", "no entries", "elsewhere"],
)
def test_a_survey_of_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, file: str, why: str) -> None:
    monkeypatch.chdir(ROOT / "docs" if file == __file__ else ROOT)
    result = CliRunner().invoke(cli.app, ["opinfo-survey", file])
    assert (result.exit_code, result.output) == (2, f"{file} {why}\n")


def test_what_the_last_release_had_is_still_there() -> None:
    """A name or parameter that is to go is deprecated first, as README.md says, and leaves the list at a release."""
    assert broken(RELEASED.read_text(encoding="utf-8").splitlines(), signatures()) == []


def test_what_would_break_programs_is_noticed() -> None:
    before = ["export", "export(0: model)", "export(1: args)", "export(f=)", "Capture"]
    now = ["export", "export(0: model)", "export(1: args=)", "export(2: more)", "new", "new(0: x)", "Capture"]
    assert broken(before, now) == ["gone: export(f=)", "new and needed: export(2: more)"]
    assert broken(before, before) == []


def test_the_citation_has_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (onnx_parity.__version__, "Apache-2.0")
    assert citation["cff-version"] == "1.2.0"


@pytest.mark.parametrize("package", ["onnx_parity", "exporter"])
def test_a_name_that_is_not_public_is_an_error_to_type_checkers(package: str) -> None:
    """They would take a module with `__getattr__` for one that has every name."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    hidden = [
        inner.name
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "not TYPE_CHECKING"
        for inner in node.body
        if isinstance(inner, ast.FunctionDef)
    ]
    assert "__getattr__" not in functions
    assert hidden == ["__getattr__"]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        onnx_parity.nothing  # type: ignore[attr-defined]  # noqa: B018
