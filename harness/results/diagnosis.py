"""What is installed here, what is missing, and what that costs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from enum import StrEnum
from importlib import import_module, metadata

import msgspec

from onnx_parity.harness.axes import BACKEND, TORCH_DYNAMO, TORCH_SCRIPT, Device
from onnx_parity.harness.one_line import one_line


class Health(StrEnum):
    OK = "ok"
    #: Not there; something that is left out then is told.
    MISSING = "missing"
    #: There, and it does not work; or needed, and not there.
    BROKEN = "broken"


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    health: Health
    #: The version, or why it is missing.
    found: str
    #: What is not done without it.
    costs: str = ""
    remedy: str = ""


class Need(msgspec.Struct, frozen=True):
    """A package that something here needs."""

    module: str
    distribution: str
    #: Empty where nothing works without it.
    costs: str = ""
    remedy: str = ""


NEEDS = (
    Need("torch", "torch"),
    Need("onnx", "onnx"),
    Need("onnx_ir", "onnx-ir"),
    Need("onnxruntime", "onnxruntime"),
    Need("numpy", "numpy"),
    Need("pytest", "pytest"),
    Need("xdist", "pytest-xdist", "`parity run` needs -n 0, and one core does all", "pip install pytest-xdist"),
    Need(
        "torchvision",
        "torchvision",
        "the models of model_zoo that come from it fail",
        "pip install onnx-parity[models]",
    ),
    Need(
        "onnxscript",
        "onnxscript",
        f"cells of {TORCH_DYNAMO} are absent, and `parity compare` and the benchmarks do without it",
        "pip install onnx-parity[peers]",
    ),
    Need(
        "hypothesis",
        "hypothesis",
        "the drawn cells of the full tier fail, and so do some tests",
        "pip install hypothesis",
    ),
    Need(
        "playwright", "playwright", "the tests of the report's pages in a browser are skipped", "pip install playwright"
    ),
)

#: Backends that are looked for. Any other module is one by its name.
BACKENDS = ("onnxruntime.backend", "jaxonnxruntime.backend", "caffe2.python.onnx.backend")


def diagnose() -> Iterator[Check]:
    """Everything, in the order in which one reads it. Imports what it speaks of."""
    yield Check("python", Health.OK, f"{platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores")
    packages = [_package(need) for need in NEEDS]
    yield from packages
    # What follows is asked of torch and onnxruntime themselves.
    if all(check.health is not Health.BROKEN for check in packages):
        yield from _exporters()
        yield from _devices()
        yield from _backends()


def healthy(checks: Sequence[Check]) -> bool:
    return all(check.health is not Health.BROKEN for check in checks)


def _package(need: Need) -> Check:
    try:
        version = metadata.version(need.distribution)
    except metadata.PackageNotFoundError:
        health = Health.MISSING if need.costs else Health.BROKEN
        costs = need.costs or "nothing runs without it"
        return Check(need.distribution, health, "not installed", costs, need.remedy or "pip install onnx-parity")
    if need.module == "torchvision":
        # Beside a torch of another build it does not import as it is; the zoo has its own way, which is tried there.
        return Check(need.distribution, Health.OK, version)
    try:
        import_module(need.module)
    except Exception as error:  # noqa: BLE001  A package that is half installed may raise anything.
        why = f"{version} does not import: {type(error).__name__}: {one_line(str(error))}"
        return Check(need.distribution, Health.BROKEN, why, need.costs or "nothing runs without it", "install it again")
    return Check(need.distribution, Health.OK, version)


def _exporters() -> Iterator[Check]:
    from onnx_parity.harness.subjects.exporters import EXPORTERS

    for exporter in EXPORTERS.values():
        missing = exporter.missing()
        if exporter.name == TORCH_SCRIPT and not missing:
            yield Check(f"exporter {exporter.name}", Health.OK, "deprecated by torch, present up to 2.15")
        elif missing:
            costs = "its cells are absent"
            yield Check(f"exporter {exporter.name}", Health.MISSING, missing, costs, "pip install onnx-parity[peers]")
        else:
            yield Check(f"exporter {exporter.name}", Health.OK, "")


def _devices() -> Iterator[Check]:
    import onnxruntime

    from onnx_parity.harness.subjects import cuda

    yield Check("device cpu", Health.OK, ", ".join(onnxruntime.get_available_providers()))
    if reason := cuda.missing():
        costs = "the CUDA lane is absent: one cell of every case, at the newest opset that onnxruntime runs"
        yield Check(
            "device cuda", Health.MISSING, reason, costs, "a CUDA device, a CUDA build of torch, onnxruntime-gpu"
        )
    else:
        yield Check("device cuda", Health.OK, f"TF32 off, {cuda.MEMORY_LIMIT >> 30} GiB a process")


def _backends() -> Iterator[Check]:
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    for module in BACKENDS:
        if reason := RUNTIMES[BACKEND + module].missing(Device.CPU):
            remedy = "pip install onnx-parity[backends]" if module.startswith("jax") else ""
            yield Check(f"backend {module}", Health.MISSING, reason, f"--runtimes {BACKEND}{module} is absent", remedy)
        else:
            yield Check(f"backend {module}", Health.OK, f"--runtimes {BACKEND}{module}")
