"""The environment of a run: versions of packages, machine, commit, missing devices and runtimes."""

from __future__ import annotations

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


def describe_run(*, seed: int, tier: Tier, argv: Sequence[str], project: Path) -> RunInfo:
    """The description of a run that starts now. The packages in it are not imported."""
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
        contents=contents(),
        cpus=os.cpu_count() or 0,
        commit=_commit(project),
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


def _commit(project: Path) -> str:
    """The commit of the project under test; empty outside a git repository."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
