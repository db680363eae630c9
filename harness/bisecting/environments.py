"""Environments with one release of a distribution, in the user's cache folder.

An environment has this release and what it depends on. Everything else is taken from the environment that makes it:
other packages that a script needs, and this project itself.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from packaging.version import Version

from onnx_parity.harness.bisecting.releases import BisectError, pip, seems_offline

__all__ = ["Environment", "Environments", "cache_folder"]

_FILE = "environment.json"
#: What pip is told besides the release, in the order in which it is tried until the release can be imported. What it
#: depends on is here, mostly in a version that it accepts; an older release may need interfaces that have changed
#: since, without saying so.
_ATTEMPTS = (
    ("--no-deps",),
    ("--no-deps", "numpy<2"),
    (),
    ("numpy<2", "protobuf<5", "setuptools<80"),
)
#: What the new environment finds after its own packages. `addsitedir` also reads the files that install a clone.
_BESIDE = "import site; site.addsitedir({folder!r})\n"


class Environment(msgspec.Struct, frozen=True):
    """An environment, or why there is none."""

    python: str
    #: Why it cannot be used: pip's last line, or the error of the import.
    unusable: str = ""


def cache_folder() -> Path:
    """The folder of this project in the user's cache."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "onnx-parity"


class Environments:
    """The environments of a folder, each of which is made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, distribution: str, version: Version) -> Environment:
        """The environment with this release. What cannot be installed is remembered too."""
        beside = [each for each in (*site.getsitepackages(), site.getusersitepackages()) if Path(each).is_dir()]
        about = "\n".join([sys.version, sys.prefix, *beside])
        name = f"{distribution}-{version}-{hashlib.sha256(about.encode()).hexdigest()[:8]}"
        folder = self._folder / name
        described = folder / _FILE
        if described.exists():
            return msgspec.json.decode(described.read_bytes(), type=Environment)
        made = self._make(folder, f"{distribution}=={version}", distribution, beside)
        described.write_bytes(msgspec.json.encode(made))
        return made

    def _make(self, folder: Path, requirement: str, distribution: str, beside: Sequence[str]) -> Environment:
        why = ""
        for words in _ATTEMPTS:
            shutil.rmtree(folder, ignore_errors=True)
            python = _new(folder)
            if why := _install(python, [requirement, *words]):
                continue
            packages = Path(_ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
            lines = [_BESIDE.format(folder=each) for each in beside]
            (packages / "beside.pth").write_text("".join(lines), encoding="utf-8")
            if not (why := _import(python, distribution)):
                return Environment(str(python))
        return Environment(str(_python_of(folder)), why)


def _new(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BisectError(f"no environment can be made in {folder}: {_last_line(done.stderr or done.stdout)}")
    return _python_of(folder)


def _python_of(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


def _install(python: Path, words: Sequence[str]) -> str:
    """Install a release; why it cannot be."""
    done = pip(["--python", str(python), "install", "--only-binary=:all:", *words])
    if done.returncode and seems_offline(done):
        # It may be there tomorrow, so that nothing is remembered.
        raise BisectError(f"the package index could not be reached while {words[0]} was installed.")
    return _last_line(done.stderr or done.stdout) if done.returncode else ""


#: Run in an environment: does what is there contradict the requirements of a distribution, and can its modules be
#: imported? What is missing does not matter if they can.
_CHECK = """
from importlib import import_module, metadata
from packaging.requirements import Requirement

for requirement in map(Requirement, metadata.requires({distribution!r}) or ()):
    if requirement.marker is None or requirement.marker.evaluate({{"extra": ""}}):
        there = [each.version for each in metadata.distributions(name=requirement.name)]
        if there and not requirement.specifier.contains(there[0], prereleases=True):
            raise SystemExit(f"it needs {{requirement}}, not {{there[0]}}")
files = metadata.files({distribution!r}) or ()
for top in sorted({{each.parts[0] for each in files if each.name == "__init__.py" and len(each.parts) == 2}}):
    import_module(top)
"""


def _import(python: Path, distribution: str) -> str:
    """Import the modules of a distribution; the last line of the error."""
    done = _ask(python, _CHECK.format(distribution=distribution))
    return _last_line(done.stderr) or f"exit code {done.returncode}" if done.returncode else ""


def _ask(python: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, errors="replace", check=False)


def _last_line(text: str) -> str:
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "")
