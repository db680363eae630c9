"""The environment of a run: versions of packages, machine, commit, missing devices and runtimes."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME, Device, Selection, Tier
from onnx_parity.harness.cases.installed import states
from onnx_parity.harness.record import SCHEMA_VERSION, RunInfo
from onnx_parity.harness.results.content import contents

_PACKAGES = ("torch", "torchvision", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "numpy", "onnx-parity")


def describe_run(
    *,
    seed: int,
    tier: Tier,
    argv: Sequence[str],
    project: Path,
    subjects: Sequence[str] = (),
    also: Iterable[str] = (),
    data: Iterable[Path] = (),
) -> RunInfo:
    """The description of a run that starts now, with these exporters and runtimes, the versions of further packages,
    and the data that the project's settings name. None of them is imported.
    """
    started = datetime.now(UTC)
    return RunInfo(
        # Two runs may start in the same second, so the name has the process number too.
        id=f"{started:%Y%m%d-%H%M%S}-{os.getpid()}",
        started=started.isoformat(timespec="seconds"),
        seed=seed,
        tier=tier,
        argv=tuple(argv),
        packages=package_versions(also),
        platform=platform_name(),
        contents=contents(subjects, data),
        distributions=states(),
        cpus=os.cpu_count() or 0,
        commit=_git(project, "rev-parse", "HEAD"),
        edits=_edits(project),
        schema_version=SCHEMA_VERSION,
    )


def missing_here(selection: Selection) -> dict[str, str]:
    """Devices, and selected exporters and runtimes, that cannot be used here, with the reasons. Imports torch."""
    from onnx_parity.harness.subjects import cuda
    from onnx_parity.harness.subjects.exporters import EXPORTERS
    from onnx_parity.harness.subjects.runtimes import RUNTIMES
    from onnx_parity.harness.transformations.named import TRANSFORMATIONS

    exporters = dict.fromkeys((*EXPORTERS, *selection.exporters))
    missing = {name: reason for name in exporters if (reason := EXPORTERS[name].missing())}
    runtimes = dict.fromkeys((ONNXRUNTIME, ONNX_REFERENCE, *(selection.runtimes or ())))
    missing |= {name: reason for name in runtimes if (reason := RUNTIMES[name].missing(Device.CPU))}
    transformations = dict.fromkeys(itertools.chain.from_iterable(selection.transforms))
    missing |= {name: reason for name in transformations if (reason := TRANSFORMATIONS[name].missing())}
    if reason := cuda.missing():
        missing["cuda"] = reason
    return missing


def platform_name() -> str:
    return platform.platform()


def packages_of(selection: Selection) -> tuple[str, ...]:
    """The distributions of the selected runtimes and transformations."""
    from onnx_parity.harness.subjects.runtimes import RUNTIMES
    from onnx_parity.harness.transformations.named import TRANSFORMATIONS

    used = [RUNTIMES[name].packages for name in selection.runtimes or ()]
    used += [TRANSFORMATIONS[name].packages for name in itertools.chain.from_iterable(selection.transforms)]
    return tuple(dict.fromkeys(itertools.chain.from_iterable(used)))


def package_versions(also: Iterable[str] = ()) -> dict[str, str]:
    """The versions of Python, of the packages that all outcomes depend on, and of further ones."""
    versions = {"python": platform.python_version()}
    for package in dict.fromkeys((*_PACKAGES, *also)):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


@functools.cache
def has_version(package: str, wanted: str) -> bool:
    """Whether the installed version of a package is one of those that are wanted, in pip's notation. It is read once,
    since each cell asks.
    """
    return SpecifierSet(wanted).contains(package_versions().get(package, ""), prereleases=True)


def _edits(project: Path) -> str:
    """A hash of what is not committed of the project under test; empty if all is, or outside a git repository."""
    difference = _git(project, "diff", "HEAD", "--no-ext-diff", "--binary")
    return (
        hashlib.blake2b(difference.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest() if difference else ""
    )


def _git(project: Path, *arguments: str) -> str:
    try:
        found = subprocess.run(
            ["git", *arguments],
            cwd=project,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
