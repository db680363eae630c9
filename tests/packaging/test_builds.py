"""The sdist and the wheel: built twice, they are the same bytes, whenever and wherever they are built."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import start

ROOT = Path(start.__file__).parent


def built(source: Path, out: Path) -> dict[str, str]:
    """The files of a build, and their hashes."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=source, check=True, capture_output=True
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of what git tracks, with other times and other permissions, as two machines have them."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = []
    for number in (1, 2):
        for name in filter(None, tracked.stdout.split("\0")):
            source, target = ROOT / name, tmp_path / str(number) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
            if not target.is_symlink():
                os.utime(target, (10**9 * number, 10**9 * number))
        found.append(tmp_path / str(number))
    return found[0], found[1]


@pytest.mark.slow
def test_builds_are_reproducible(copies: tuple[Path, Path], tmp_path: Path) -> None:
    one, other = (built(copy, tmp_path / f"out{number}") for number, copy in enumerate(copies))
    assert len(one) == 2
    assert one == other


@pytest.mark.slow
def test_a_wheel_of_the_sdist_is_the_wheel_of_the_clone(copies: tuple[Path, Path], tmp_path: Path) -> None:
    files = built(copies[0], tmp_path / "out")
    (sdist,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    again = built(folder, tmp_path / "again")
    assert [again[name] for name in files if name.endswith(".whl")] == [
        files[name] for name in files if name.endswith(".whl")
    ]


@pytest.mark.slow
def test_installed_it_passes_its_own_smoke_tier(environment: Path, tmp_path: Path) -> None:
    """One file of the cases that come with the package, from the wheel alone, in a folder that is no clone."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = "import onnx_parity.op_cases as cases; print(cases.__path__[0])"
    python = str(environment / "python")
    place = subprocess.check_output([python, "-c", program], cwd=tmp_path, env=variables, text=True)
    file = Path(place.strip()) / "activation.py"
    assert ROOT not in file.parents
    command = [python, "-m", "pytest", str(file), "--parity-tier", "smoke", "--parity-devices", "cpu", "-q", "-n", "0"]
    ran = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "failed" not in ran.stdout
