"""The project as users get it: its built wheel in new environments."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import start

ROOT = Path(start.__file__).parent


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def install(wheel: Path, place: Path) -> Path:
    """Install the wheel alone into a new virtual environment, and return its folder of packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    arguments = ["install", "--no-deps", "--no-index", "--quiet", "--no-compile", str(wheel)]
    command = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), *arguments]
    subprocess.run(command, check=True, capture_output=True)
    (site,) = place.glob("lib/python*/site-packages")
    return site


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel installed. What it depends on is that of these tests."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    # A folder that is named so is searched last, and files in it that lead to the clone are not read.
    (install(wheel, place) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return place / "bin"


@pytest.fixture
def plain_environment(wheel: Path, tmp_path: Path) -> Path:
    """The folder of packages of a new environment, which has what the wheel requires without any extra."""
    site = install(wheel, tmp_path / "venv")
    (metadata,) = site.glob("onnx_parity-*.dist-info")
    link_packages(site, requirements_of(distribution("onnx-parity").at(metadata).requires or ()))
    return site


def requirements_of(lines: Iterable[str]) -> list[str]:
    """The names of the distributions that are required without an extra."""
    parsed = map(Requirement, lines)
    return [each.name for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})]


def link_packages(site: Path, names: Iterable[str]) -> None:
    """Make distributions of the running environment, and all that they require, importable from another one."""
    left, linked = list(names), set[str]()
    while left:
        name = left.pop()
        if name in linked:
            continue
        linked.add(name)
        found = distribution(name)
        left += requirements_of(found.requires or ())
        for entry in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            target = Path(str(found.locate_file(entry)))
            if not (site / entry).exists():
                (site / entry).symlink_to(target, target_is_directory=target.is_dir())
