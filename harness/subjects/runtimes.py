"""The runtimes that execute exported models, one small class for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx.reference import ReferenceEvaluator

from onnx_parity.exporter.arrays import Fed
from onnx_parity.exporter.runtime.sessions import (
    CPU_PROVIDER,
    ArraySession,
    errors_of_missing_kernels,
    item_by_item,
    session_options,
)
from onnx_parity.harness.axes import (
    BACKEND,
    ONNX_REFERENCE,
    ONNXRUNTIME,
    ONNXRUNTIME_OPSETS,
    OPSETS,
    OPTIMISATION_LEVELS,
    Device,
)
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.subjects import cuda
from onnx_parity.harness.subjects.backends import Backend
from onnx_parity.harness.subjects.runtime_interface import NoDeviceError, NoKernelError, Runtime, Session

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class OnnxRuntime:
    """onnxruntime with one thread and a level of graph optimisation; the default enables all optimisations."""

    level: str = ""
    opsets: tuple[int, ...] = ONNXRUNTIME_OPSETS

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
            raise NoDeviceError(
                "onnxruntime cannot load its CUDA provider: install the CUDA and cuDNN that this onnxruntime-gpu is for"
            )
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

    def missing(self, device: Device) -> str:
        return "onnx.reference runs on the CPU only" if device is Device.CUDA else ""

    def load(self, model: bytes | Path, device: Device) -> Session:
        proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        return _OnnxReferenceSession(ReferenceEvaluator(proto))


class _OnnxReferenceSession:
    def __init__(self, evaluator: ReferenceEvaluator) -> None:
        self._evaluator = evaluator

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return item_by_item(list(self._evaluator.run(None, dict(feeds))))


class Runtimes(dict[str, Runtime]):
    """Runtimes by name: those of the harness, and each `backend:module` once it has been looked up."""

    def __missing__(self, name: str) -> Runtime:
        if not name.startswith(BACKEND):
            raise KeyError(name)
        return self.setdefault(name, Backend(name))


_ALL: tuple[Runtime, ...] = (OnnxRuntime(), *map(OnnxRuntime, OPTIMISATION_LEVELS), OnnxReference())
RUNTIMES = Runtimes((runtime.name, runtime) for runtime in _ALL)
