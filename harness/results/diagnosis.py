"""What `parity doctor` checks: packages, exporters, devices and runtimes, and what does not work without each."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from importlib import import_module, metadata

import msgspec

from onnx_parity.harness.axes import ADAPTERS, BACKEND, TORCH_DYNAMO, TORCH_SCRIPT, Device
from onnx_parity.harness.one_line import error_line, one_line


class Health(StrEnum):
    OK = "ok"
    #: Not installed, and not required; `costs` describes what does not work without it.
    MISSING = "missing"
    #: Installed but does not work, or required and not installed.
    BROKEN = "broken"


class Check(msgspec.Struct, frozen=True):
    """The result for one package, exporter, device or backend."""

    what: str
    health: Health
    #: The version, or the reason why it is missing.
    found: str
    #: What does not work without it.
    costs: str = ""
    remedy: str = ""


#: An import that takes longer than this has gone wrong.
_SECONDS = 60.0
#: What does not work without a required package.
_EVERYTHING = "nothing works"


class Need(msgspec.Struct, frozen=True):
    """A package that the project, or a part of it, needs."""

    module: str
    distribution: str
    #: What does not work without it; empty if the whole project does not.
    costs: str = ""
    remedy: str = ""


NEEDS = (
    Need("torch", "torch"),
    Need("onnx", "onnx"),
    Need("onnx_ir", "onnx-ir"),
    Need("onnxruntime", "onnxruntime"),
    Need("numpy", "numpy"),
    Need("pytest", "pytest"),
    Need("xdist", "pytest-xdist", "`parity run` works with -n 0 only, on one core", "pip install pytest-xdist"),
    Need(
        "torchvision", "torchvision", "the models of model_zoo that use it fail", "pip install torchvision",
    ),
    Need(
        "onnxscript", "onnxscript", f"cells of {TORCH_DYNAMO} are absent; the benchmarks leave that exporter out",
        "pip install onnxscript",
    ),
    Need(
        "hypothesis", "hypothesis", "some tests fail", "pip install hypothesis",
    ),
    Need("ray", "ray", "`parity run --on` cannot run cells on a cluster", "pip install 'onnx-parity[ray]'"),
    Need(
        "playwright", "playwright", "the tests of the report's pages in a browser are skipped", "pip install playwright"
    ),
)  # fmt: skip

#: Backends that are checked. Any other module with the ONNX backend interface can be used by its name.
BACKENDS = ("onnxruntime.backend", "jaxonnxruntime.backend", "caffe2.python.onnx.backend")


def diagnose() -> Iterator[Check]:
    """All checks, in the order in which they are printed. Imports what it checks."""
    yield Check("python", Health.OK, f"{platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores")
    packages = [_package(need) for need in NEEDS]
    yield from packages
    # The checks that follow call torch and onnxruntime.
    if all(check.health is not Health.BROKEN for check in packages):
        yield from _exporters()
        yield _replaced_functions()
        yield from _devices()
        yield from _backends()
        yield from _runtimes()
        yield from _transformations()


def healthy(checks: Sequence[Check]) -> bool:
    return all(check.health is not Health.BROKEN for check in checks)


def _package(need: Need) -> Check:
    try:
        version = metadata.version(need.distribution)
    except metadata.PackageNotFoundError:
        health = Health.MISSING if need.costs else Health.BROKEN
        costs = need.costs or _EVERYTHING
        return Check(
            need.distribution, health, "not installed", costs, need.remedy or f"pip install {need.distribution}"
        )
    if need.module == "torchvision":
        # Next to another build of torch it does not import directly. The model zoo imports it in its own way.
        return Check(need.distribution, Health.OK, version)
    try:
        import_module(need.module)
    except Exception as error:  # noqa: BLE001  A package that is partly installed may raise anything.
        why = f"{version} cannot be imported: {error_line(error)}"
        return Check(
            need.distribution,
            Health.BROKEN,
            why,
            need.costs or _EVERYTHING,
            f"pip install --force-reinstall {need.distribution}",
        )
    return Check(need.distribution, Health.OK, version)


def _exporters() -> Iterator[Check]:
    from onnx_parity.harness.subjects.exporters import EXPORTERS

    for exporter in EXPORTERS.values():
        missing = exporter.missing()
        if exporter.name == TORCH_SCRIPT and not missing:
            yield Check(f"exporter {exporter.name}", Health.OK, "deprecated by torch, included up to torch 2.15")
        elif missing:
            costs = "its cells are absent"
            yield Check(
                f"exporter {exporter.name}", Health.MISSING, missing, costs, f"pip install -U {missing.split()[0]}"
            )
        else:
            yield Check(f"exporter {exporter.name}", Health.OK, "")


def _replaced_functions() -> Check:
    """Whether torch has what the exporter replaces while it records a program, which a newer version may rename."""
    from onnx_parity.exporter.patches.recording import missing_functions
    from onnx_parity.exporter.torch_inside.patch import describe_missing

    what, missing = "functions replaced while recording", missing_functions()
    if not missing:
        return Check(what, Health.OK, "")
    costs = "programs that need them may be refused, or exported wrongly"
    found = "; ".join(map(describe_missing, missing))
    return Check(what, Health.MISSING, found, costs, "a version of torch that docs/versions.md lists")


def _devices() -> Iterator[Check]:
    import onnxruntime

    from onnx_parity.harness.subjects import cuda

    yield Check("device cpu", Health.OK, ", ".join(onnxruntime.get_available_providers()))
    if reason := cuda.missing():
        costs = "the CUDA cells are absent: one for every case, at the newest opset that onnxruntime supports"
        yield Check(
            "device cuda", Health.MISSING, reason, costs, "a CUDA device, a CUDA build of torch, onnxruntime-gpu"
        )
    else:
        yield Check("device cuda", Health.OK, f"TF32 off, {cuda.MEMORY_LIMIT >> 30} GiB per process")


def _backends() -> Iterator[Check]:
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    for module in BACKENDS:
        if reason := RUNTIMES[BACKEND + module].missing(Device.CPU):
            remedy = "pip install jaxonnxruntime jax absl-py" if module.startswith("jax") else ""
            yield Check(f"backend {module}", Health.MISSING, reason, f"--runtimes {BACKEND}{module} is absent", remedy)
        else:
            yield Check(f"backend {module}", Health.OK, f"--runtimes {BACKEND}{module}")


def _runtimes() -> Iterator[Check]:
    """The runtimes of other projects."""
    from onnx_parity.harness.subjects.adapters.adapter import Adapter
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    for name in ADAPTERS:
        runtime = RUNTIMES[name]
        modules = tuple(runtime.modules.values()) if isinstance(runtime, Adapter) else ()
        costs = f"the cells of --runtimes {name} are absent"
        yield _other(f"runtime {name}", runtime.missing(Device.CPU), costs, runtime.packages, modules)


def _transformations() -> Iterator[Check]:
    from onnx_parity.harness.transformations.named import TRANSFORMATIONS

    for name, transformation in TRANSFORMATIONS.items():
        costs = f"the cells of --transforms {name} are absent"
        modules = (transformation.module,)
        yield _other(f"transformation {name}", transformation.missing(), costs, transformation.packages, modules)


def _other(what: str, missing: str, costs: str, packages: Sequence[str], modules: Sequence[str]) -> Check:
    """The check of what other projects provide."""
    if missing:
        reason, _, remedy = missing.partition(": pip install ")
        return Check(what, Health.MISSING, reason, costs, f"pip install {remedy}" if remedy else "")
    versions = _versions(packages)
    if error := _import_error(tuple(modules)):
        why = f"{versions} cannot be imported: {error}"
        return Check(what, Health.BROKEN, why, costs, f"pip install --force-reinstall {' '.join(packages)}")
    return Check(what, Health.OK, versions)


@cache
def _import_error(modules: tuple[str, ...]) -> str:
    """The error of importing these modules in another process, because some start threads or crash; empty if none."""
    program = "\n".join(f"import {module}" for module in modules)
    try:
        command = [sys.executable, "-c", program]
        tried = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"the import takes longer than {_SECONDS:.0f} s"
    if not tried.returncode:
        return ""
    lines = tried.stderr.strip().splitlines()
    return one_line(lines[-1]) if lines else f"the process ended with {tried.returncode}"


def _versions(packages: Sequence[str]) -> str:
    """`openvino 2026.4.1`; a distribution of another name may be installed instead."""
    found = []
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{package} {metadata.version(package)}")
    return ", ".join(found)
