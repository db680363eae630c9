"""The runtimes that execute exported models: onnxruntime, onnx.reference, and those of `adapters/` by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from onnx.reference.op_run import OpRun

from onnx_parity.exporter.arrays import Fed
from onnx_parity.exporter.runtime.sessions import (
    CPU_PROVIDER,
    ArraySession,
    errors_of_missing_kernels,
    item_by_item,
    session_options,
)
from onnx_parity.exporter.verification import repro_onnx_reference
from onnx_parity.harness.axes import (
    ADAPTERS,
    BACKEND,
    EXECUTION_PROVIDERS,
    ONNX_REFERENCE,
    ONNXRUNTIME,
    ONNXRUNTIME_OPSETS,
    OPSETS,
    OPTIMISATION_LEVELS,
    RUNTIME_NAMES,
    Device,
    Dtype,
)
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.subjects import cuda
from onnx_parity.harness.subjects.backends import Backend
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, NotUsableError, Runtime, Session

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class OnnxRuntime:
    """onnxruntime with one thread and a level of graph optimisation; the default enables all optimisations."""

    level: str = ""
    opsets: tuple[int, ...] = ONNXRUNTIME_OPSETS
    dtypes: frozenset[Dtype] = frozenset(Dtype)
    packages: tuple[str, ...] = ("onnxruntime",)

    @property
    def name(self) -> str:
        return f"{ONNXRUNTIME}:{self.level}" if self.level else ONNXRUNTIME

    def missing(self, device: Device) -> str:
        return cuda.missing() if device is Device.CUDA else ""

    def load(self, model: bytes | Path, device: Device) -> Session:
        import onnxruntime

        options = _session_options(self.level)
        providers = [cuda.provider()] if device is Device.CUDA else [CPU_PROVIDER]
        source = str(model) if isinstance(model, Path) else model
        try:
            session = onnxruntime.InferenceSession(source, options, providers=providers)
        except errors_of_missing_kernels() as error:
            raise NoKernelError(one_line(str(error))) from error
        if device is Device.CUDA and cuda.PROVIDER not in session.get_providers():
            # onnxruntime reports this only on stderr, and then runs on the CPU, which would count as a pass.
            raise NotUsableError(
                "onnxruntime cannot load its CUDA provider: install the CUDA and cuDNN that this onnxruntime-gpu is for"
            )
        return _OnnxRuntimeSession(session)


#: For each provider, its name in onnxruntime, the device that it runs on, and the package that has it.
_PROVIDERS = {
    "openvino": ("OpenVINOExecutionProvider", Device.CPU, "onnxruntime-openvino"),
    "tensorrt": ("TensorrtExecutionProvider", Device.CUDA, "onnxruntime-gpu, with TensorRT"),
}
assert tuple(_PROVIDERS) == EXECUTION_PROVIDERS


@dataclass(frozen=True)
class OnnxRuntimeProvider:
    """onnxruntime with an execution provider. What the provider does not have, onnxruntime runs itself."""

    provider: str
    opsets: tuple[int, ...] = ONNXRUNTIME_OPSETS
    dtypes: frozenset[Dtype] = frozenset(Dtype)
    packages: tuple[str, ...] = ("onnxruntime", "onnxruntime-openvino", "onnxruntime-gpu")

    @property
    def name(self) -> str:
        return f"{ONNXRUNTIME}:{self.provider}"

    def missing(self, device: Device) -> str:
        import onnxruntime

        provider, runs_on, package = _PROVIDERS[self.provider]
        if device is not runs_on:
            return f"{self.name} runs on {runs_on} only"
        if provider not in onnxruntime.get_available_providers():
            return f"this onnxruntime has no {provider}: install {package}"
        return cuda.missing() if device is Device.CUDA else ""

    def load(self, model: bytes | Path, device: Device) -> Session:
        import onnxruntime

        provider = _PROVIDERS[self.provider][0]
        source = str(model) if isinstance(model, Path) else model
        try:
            session = onnxruntime.InferenceSession(source, _session_options(""), providers=[provider, CPU_PROVIDER])
        except errors_of_missing_kernels() as error:
            raise NoKernelError(one_line(str(error))) from error
        if provider not in session.get_providers():
            raise NotUsableError(f"onnxruntime cannot load its {provider}")
        return _OnnxRuntimeSession(session)


@cache
def _session_options(level: str) -> onnxruntime.SessionOptions:
    named = {"": "", OPTIMISATION_LEVELS[0]: "disable_all"}.get(level, f"enable_{level}")
    # The matrix runs one process for each core, and several threads in each would compete for the cores.
    return session_options(one_thread=True, level=named, silent=True)


class _OnnxRuntimeSession:
    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = ArraySession(session)

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return item_by_item(self._session.run(feeds))


@dataclass(frozen=True)
class OnnxReference:
    """`onnx.reference`, the specification's own evaluator, which is slow and supports every opset."""

    name: str = ONNX_REFERENCE
    opsets: tuple[int, ...] = OPSETS
    dtypes: frozenset[Dtype] = frozenset(Dtype)
    packages: tuple[str, ...] = ("onnx",)
    #: Implementations of operators that replace its own.
    new_ops: tuple[type[OpRun], ...] = ()

    def missing(self, device: Device) -> str:
        return "onnx.reference runs on the CPU only" if device is Device.CUDA else ""

    def load(self, model: bytes | Path, device: Device) -> Session:
        return _OnnxReferenceSession(repro_onnx_reference.load(model, self.new_ops))


@dataclass(frozen=True)
class _OnnxReferenceSession:
    run_model: Callable[[Mapping[str, Fed]], Sequence[object]]

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return item_by_item(self.run_model(feeds))


class Runtimes(dict[str, Runtime]):
    """Runtimes by name: onnxruntime and onnx.reference, and each other one once it has been looked up."""

    def __missing__(self, name: str) -> Runtime:
        if name in ADAPTERS:
            found: Runtime = import_module(f"onnx_parity.harness.subjects.adapters.{name}").RUNTIME
        elif name.startswith(BACKEND):
            found = Backend(name)
        else:
            raise KeyError(name)
        return self.setdefault(name, found)


_ALL: tuple[Runtime, ...] = (
    OnnxRuntime(),
    *map(OnnxRuntime, OPTIMISATION_LEVELS),
    *map(OnnxRuntimeProvider, EXECUTION_PROVIDERS),
    OnnxReference(),
)
RUNTIMES = Runtimes((runtime.name, runtime) for runtime in _ALL)


def every_runtime() -> tuple[Runtime, ...]:
    """All runtimes that have a name of their own."""
    return tuple(RUNTIMES[name] for name in RUNTIME_NAMES)
