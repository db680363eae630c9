"""An installation has the single name `onnx_parity`; in a clone the folders' short names are the same modules."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import start

ROOT = Path(start.__file__).parent

#: Leaves the clone, which an editable installation puts on the path, out of it.
#: The installed packages may name a clone: this one or, if this is a worktree, another.
_WITHOUT_THE_CLONE = "import os, sys; sys.path = [each for each in sys.path if not os.path.isdir(f'{each}/op_cases')]\n"


def output_of(program: str, folder: Path, *, path: Path = ROOT) -> str:
    """What a program prints that is run in a folder, with another one first on Python's path."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def outputs_of(programs: Sequence[str], folder: Path) -> list[str]:
    """What each of these programs prints, which are run like `output_of` in processes that have imported torch."""
    program = f"""
import os, sys, onnx_ir, onnxruntime, torch
for program in {list(programs)!r}:
    child = os.fork()
    if child == 0:
        exec(program, {{"__name__": "__main__"}})
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, program
"""
    return output_of(program, folder).splitlines()


@pytest.mark.slow
def test_in_a_clone_a_short_name_is_the_same_module(tmp_path: Path) -> None:
    imports = [
        "import exporter, onnx_parity.exporter as own",
        "import onnx_parity.exporter as own, exporter",
        "import harness.case as exporter, onnx_parity.harness.case as own",
        "from onnx_parity.harness import case as own; import harness.case as exporter",
        "import exporter.graph.graph as exporter, onnx_parity.exporter.graph.graph as own",
        "import op_cases.padding as exporter, onnx_parity.op_cases.padding as own",
    ]
    compared = "print(exporter is own, own.__spec__.name == own.__name__, own.__name__)"
    for line, found in zip(imports, outputs_of([f"{each}\n{compared}" for each in imports], tmp_path), strict=True):
        same, consistent, name = found.split()
        assert (same, consistent) == ("True", "True"), line
        assert name.startswith("onnx_parity."), line


@pytest.mark.slow
def test_a_project_keeps_its_own_folders_of_these_names(tmp_path: Path) -> None:
    for folder in ("exporter", "harness"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(f"whose = 'the project, {folder}'\n")
    program = "import onnx_parity.exporter, exporter, harness\nprint(exporter.whose, harness.whose, sep='; ')"
    for first in ("", "import onnx_parity\n"):
        # Python puts the working directory before PYTHONPATH for a program given by -c.
        assert output_of(first + program, tmp_path) == "the project, exporter; the project, harness"


@pytest.mark.slow
def test_the_package_has_every_public_name_of_the_exporter(tmp_path: Path) -> None:
    program = """
import sys, onnx_parity
print("torch" in sys.modules, "onnx_parity.exporter" in sys.modules)
print(onnx_parity.errors.ExportError is onnx_parity.ExportError, set(onnx_parity.__all__) <= set(dir(onnx_parity)))
try:
    onnx_parity.exprot
except AttributeError as error:
    print(error)
"""
    assert output_of(program, tmp_path).splitlines() == [
        "False False",
        "True True",
        "module 'onnx_parity' has no attribute 'exprot'",
    ]


@pytest.mark.slow
def test_public_modules_are_imported_by_their_public_names(tmp_path: Path) -> None:
    public = ["errors", "operators", "ops", "symbolic_helper", "testing", "verification"]
    programs = [
        f"""
from onnx_parity.{name} import __all__ as names
import onnx_parity.{name}, onnx_parity.exporter, sys
print(len(names) > 0, onnx_parity.{name} is onnx_parity.exporter.{name} is sys.modules['onnx_parity.{name}'])
"""
        for name in public
    ]
    assert dict(zip(public, outputs_of(programs, tmp_path), strict=True)) == dict.fromkeys(public, "True True")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contents of the wheel, as they stand where it is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_holds_one_package(installed: Path) -> None:
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {"onnx_parity"}
    package = installed / "onnx_parity"
    folders = {path.name for path in package.iterdir() if path.is_dir()}
    assert (package / "py.typed").exists() and (package / "errors.py").exists()
    assert folders == {"exporter", "harness", "model_zoo", "op_cases", "reports"}
    # The files that are not Python: declarations' data, pages, tables.
    for folder in folders:
        shipped = {path.relative_to(package).as_posix() for path in (package / folder).rglob("*") if path.is_file()}
        tracked = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
        assert shipped == {*tracked.stdout.splitlines()}


@pytest.mark.slow
def test_installed_it_exports_beside_folders_of_the_same_names(installed: Path, tmp_path: Path) -> None:
    for folder in ("exporter", "harness", "reports"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("raise AssertionError('this is the project of somebody else')\n")
    program = f"""{_WITHOUT_THE_CLONE}
import onnx_parity, torch
program = onnx_parity.export(torch.nn.ELU(), (torch.tensor([1.0, -1.0]),), opset_version=9)
print(onnx_parity.__file__, program(torch.tensor([2.0]).repeat(2)).tolist())
from onnx_parity.harness.cli import app
app(["list", "--help"])
"""
    first, *rest = output_of(program, tmp_path, path=installed).splitlines()
    assert first == f"{installed}/onnx_parity/__init__.py [2.0, 2.0]"
    assert "Usage" in "".join(rest)


@pytest.mark.slow
def test_installed_the_short_names_are_nobodys(installed: Path, tmp_path: Path) -> None:
    program = f"""{_WITHOUT_THE_CLONE}
import importlib.util, onnx_parity.harness.case
print([name for name in ("exporter", "harness", "reports", "op_cases", "model_zoo") if importlib.util.find_spec(name)])
"""
    assert output_of(program, tmp_path, path=installed) == "[]"
