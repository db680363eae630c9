"""The runtime axis: what executes an exported model. One small class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import onnx
from onnx.reference import ReferenceEvaluator

from harness.arrays import Array
from harness.axes import ONNX_REFERENCE, ONNXRUNTIME, ONNXRUNTIME_OPSETS, OPSETS, Device
from harness.wording import one_line

if TYPE_CHECKING:
    import onnxruntime


class NoKernelError(Exception):
    """The runtime knows the operator but has no implementation for it, or not for its types."""


class Session(Protocol):
    """A model that is ready to run."""

    def run(self, feeds: Mapping[str, Array]) -> Sequence[object]: ...


class Runtime(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def opsets(self) -> tuple[int, ...]: ...

    def missing(self, device: Device) -> str:
        """Why it cannot run on this device here. Empty when it can."""

    def load(self, model: bytes | Path, device: Device) -> Session: ...


@cache
def missing_cuda() -> str:
    """Why CUDA cells cannot run here. Empty when they can."""
    import onnxruntime
    import torch

    if not torch.cuda.is_available():
        return "no CUDA device"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "this onnxruntime has no CUDA provider; install onnxruntime-gpu"
    return ""


@dataclass(frozen=True)
class OnnxRuntime:
    """onnxruntime with one thread. Without `optimised` it runs the graph as it was written."""

    optimised: bool = True
    name: str = ONNXRUNTIME
    opsets: tuple[int, ...] = ONNXRUNTIME_OPSETS

    def missing(self, device: Device) -> str:
        return missing_cuda() if device is Device.CUDA else ""

    def load(self, model: bytes | Path, device: Device) -> Session:
        import onnxruntime
        from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoImplementation

        options = _session_options(self.optimised)
        providers = ["CUDAExecutionProvider"] if device is Device.CUDA else ["CPUExecutionProvider"]
        source = str(model) if isinstance(model, Path) else model
        try:
            return _OnnxRuntimeSession(onnxruntime.InferenceSession(source, options, providers=providers))
        except NoImplementation as error:
            raise NoKernelError(one_line(str(error))) from error


@cache
def _session_options(optimised: bool) -> onnxruntime.SessionOptions:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The matrix runs a process a core; a pool of threads in each would only contend.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


class _OnnxRuntimeSession:
    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session

    def run(self, feeds: Mapping[str, Array]) -> Sequence[object]:
        outputs: Sequence[object] = self._session.run(None, dict(feeds))
        return outputs


@dataclass(frozen=True)
class OnnxReference:
    """`onnx.reference`: the specification's own evaluator. Slow, and knows every opset."""

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

    def run(self, feeds: Mapping[str, Array]) -> Sequence[object]:
        return list(self._evaluator.run(None, dict(feeds)))


_ALL: tuple[Runtime, ...] = (OnnxRuntime(), OnnxReference())
RUNTIMES = {runtime.name: runtime for runtime in _ALL}
