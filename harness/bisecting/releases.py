"""The releases of a distribution that pip finds for this Python, in the index that pip is set to use."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

__all__ = ["BisectError", "Releases", "pip", "releases_of", "seems_offline"]

#: How pip tells, with -vv, of a file that it leaves out, and of the releases that it has.
_LEFT_OUT = re.compile(r"(?:Skipping link|Link requires a different Python).*?([\w.+!-]+\.(?:whl|tar\.gz|zip))\b")
_AVAILABLE = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
#: How pip says that it could not ask the index at all.
_NO_NETWORK = re.compile(
    r"NewConnectionError|Max retries exceeded|timed out|ConnectTimeoutError|NameResolutionError|ProxyError"
)


class BisectError(Exception):
    """The releases cannot be searched. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases from the oldest to the newest."""

    distribution: str
    #: Those with a wheel for this Python and platform.
    usable: tuple[Version, ...]
    #: Those without.
    without_wheel: tuple[Version, ...]


def releases_of(distribution: str, *, prereleases: bool = False) -> Releases:
    """Ask the index. Releases that were withdrawn are not used."""
    words = ["index", "versions", distribution, "--only-binary=:all:", "-vv", *(["--pre"] if prereleases else [])]
    done = pip(words)
    found = _AVAILABLE.search(done.stdout)
    without = _left_out(done.stdout + done.stderr, distribution)
    if found is None:
        if seems_offline(done):
            raise BisectError(
                f"the package index could not be reached, so the releases of {distribution} are not known. pip uses "
                "the index of its settings, which `pip config list` shows; PIP_INDEX_URL and PIP_FIND_LINKS change it."
            )
        why = f", but {len(without)} releases without one for Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise BisectError(
            f"pip finds no release of {distribution} with a wheel that can be used here{why if without else ''}. "
            "Is the name that of a distribution, as `pip install` takes it?"
        )
    usable = {version for text in found[1].split(",") if (version := _version(text.strip())) is not None}
    kept = {version for version in without if prereleases or not version.is_prerelease}
    return Releases(distribution, tuple(sorted(usable)), tuple(sorted(kept - usable)))


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _left_out(log: str, distribution: str) -> set[Version]:
    """The releases of the files that pip did not consider."""
    found: set[Version] = set()
    for name in _LEFT_OUT.findall(log):
        try:
            if name.endswith(".whl"):
                of, version = parse_wheel_filename(name)[:2]
            else:
                of, version = parse_sdist_filename(name)
        except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
            continue
        if of == canonicalize_name(distribution):
            found.add(version)
    return found


def seems_offline(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether pip said that it could not ask the index."""
    return _NO_NETWORK.search(done.stdout + done.stderr) is not None


def pip(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run pip with its own settings."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode and "No module named pip" in done.stderr:
        raise BisectError(f"pip is not installed here, which makes the environments: {sys.executable} -m ensurepip")
    return done
