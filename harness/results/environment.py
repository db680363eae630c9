"""The environment of a run: versions of packages, machine, commit, missing devices and runtimes."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from onnx_parity.harness.axes import Device, Selection, Tier
from onnx_parity.harness.record import SCHEMA_VERSION, RunInfo
from onnx_parity.harness.results.content import contents

_PACKAGES = ("torch", "torchvision", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "numpy", "onnx-parity")


def describe_run(*, seed: int, tier: Tier, argv: Sequence[str], project: Path, subjects: Sequence[str] = ()) -> RunInfo:
    """The description of a run that starts now, with these exporters and runtimes. The packages are not imported."""
    started = datetime.now(UTC)
    return RunInfo(
        # Two runs may start in the same second, so the name has the process number too.
        id=f"{started:%Y%m%d-%H%M%S}-{os.getpid()}",
        started=started.isoformat(timespec="seconds"),
        seed=seed,
        tier=tier,
        argv=tuple(argv),
        packages=package_versions(),
        platform=platform_name(),
        contents=contents(subjects),
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

    exporters = dict.fromkeys((*EXPORTERS, *selection.exporters))
    missing = {name: reason for name in exporters if (reason := EXPORTERS[name].missing())}
    runtimes = dict.fromkeys((*RUNTIMES, *(selection.runtimes or ())))
    missing |= {name: reason for name in runtimes if (reason := RUNTIMES[name].missing(Device.CPU))}
    if reason := cuda.missing():
        missing["cuda"] = reason
    return missing


def platform_name() -> str:
    return platform.platform()


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that outcomes depend on."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


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
