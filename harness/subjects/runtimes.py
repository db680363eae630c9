"""The runtime axis: what executes an exported model. One small class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import onnx
import torch
import torch.utils.dlpack
from onnx.reference import ReferenceEvaluator

from onnx_parity.exporter.arrays import BFLOAT16, Array, Fed, to_array
from onnx_parity.exporter.runtime.sessions import item_by_item
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
    """onnxruntime with one thread, and as much of its graph optimiser as the level says: all of it if none is named."""

    level: str = ""
    opsets: tuple[int, ...] = ONNXRUNTIME_OPSETS

    @property
    def name(self) -> str:
        return f"{ONNXRUNTIME}:{self.level}" if self.level else ONNXRUNTIME

    def missing(self, device: Device) -> str:
        return cuda.missing() if device is Device.CUDA else ""

    def load(self, model: bytes | Path, device: Device) -> Session:
        import onnxruntime
        from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoImplementation

        options = _session_options(self.level)
        providers = [cuda.provider()] if device is Device.CUDA else ["CPUExecutionProvider"]
        source = str(model) if isinstance(model, Path) else model
        try:
            session = onnxruntime.InferenceSession(source, options, providers=providers)
        except NoImplementation as error:
            raise NoKernelError(one_line(str(error))) from error
        if device is Device.CUDA and cuda.PROVIDER not in session.get_providers():
            # It says so on stderr at most, and runs on the CPU: a pass would be one of another lane.
            raise NoDeviceError(
                "onnxruntime cannot load its CUDA provider: install the CUDA and cuDNN that this onnxruntime-gpu is for"
            )
        return _OnnxRuntimeSession(session)


@cache
def _session_options(level: str) -> onnxruntime.SessionOptions:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The matrix runs a process a core; a pool of threads in each would only contend.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if level:
        named = "ORT_DISABLE_ALL" if level == OPTIMISATION_LEVELS[0] else f"ORT_ENABLE_{level.upper()}"
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, named)
    return options


class _OnnxRuntimeSession:
    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        ends = [*session.get_inputs(), *session.get_outputs()]
        self._has_bfloat16 = any(end.type == "tensor(bfloat16)" for end in ends)

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        if self._has_bfloat16:
            values = {name: _to_ort_value(cast("Array", array)) for name, array in feeds.items()}
            return [_from_ort_value(value) for value in self._session.run_with_ort_values(None, values)]
        return item_by_item(self._session.run(None, dict(feeds)))


def _to_ort_value(array: Array) -> onnxruntime.OrtValue:
    """onnxruntime takes bfloat16 only as the bits of it, and said so."""
    import onnxruntime

    if array.dtype != BFLOAT16:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    # Not ascontiguousarray, which gives a scalar a dimension.
    bits = np.asarray(array, order="C").view(np.uint16)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)


def _from_ort_value(value: onnxruntime.OrtValue) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    return to_array(torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack()))


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

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return item_by_item(list(self._evaluator.run(None, dict(feeds))))


class Runtimes(dict[str, Runtime]):
    """Runtimes by name: the harness's own, and a `backend:module` from the first time that it is asked for."""

    def __missing__(self, name: str) -> Runtime:
        if not name.startswith(BACKEND):
            raise KeyError(name)
        return self.setdefault(name, Backend(name))


_ALL: tuple[Runtime, ...] = (OnnxRuntime(), *map(OnnxRuntime, OPTIMISATION_LEVELS), OnnxReference())
RUNTIMES = Runtimes((runtime.name, runtime) for runtime in _ALL)
