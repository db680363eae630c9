"""How onnxruntime runs a model, without this project: `repro.py` of a bundle contains this file."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: The dtypes that numpy lacks, with their numbers in ONNX. onnxruntime takes and gives them as bits.
LACKING = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20}
#: The same, by the names of onnxruntime's types.
TYPES = {f"tensor({name.replace('_', '')})": name for name in LACKING}
PROVIDERS = {"openvino": "OpenVINOExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}


def load(model: Path, variant: str = "") -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """A variant is an execution provider, or the graph optimisations: `none`, `basic`, `extended` or `layout`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if variant and variant not in PROVIDERS:
        level = "ORT_DISABLE_ALL" if variant == "none" else f"ORT_ENABLE_{variant.upper()}"
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    providers = [PROVIDERS[variant]] if variant in PROVIDERS else []
    session = onnxruntime.InferenceSession(str(model), options, providers=[*providers, "CPUExecutionProvider"])
    ends = (*session.get_inputs(), *session.get_outputs())
    if all(end.type not in TYPES for end in ends):
        return lambda inputs: list(session.run(None, dict(inputs)))

    def run(inputs: Mapping[str, Any]) -> Sequence[Any]:
        values = {name: _as_value(array) for name, array in inputs.items()}
        return [_as_array(value) for value in session.run_with_ort_values(None, values)]

    return run


def _as_value(array: Any) -> Any:
    from onnxruntime import OrtValue

    if array.dtype.name not in LACKING:
        return OrtValue.ortvalue_from_numpy(array)
    bits = np.array(array).view(f"u{array.itemsize}")
    return OrtValue.ortvalue_from_numpy_with_onnx_type(bits, LACKING[array.dtype.name])


def _as_array(value: Any) -> Any:
    if value.data_type() not in TYPES:
        return value.numpy()
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, TYPES[value.data_type()]))
    size = int(np.prod(value.shape())) * dtype.itemsize
    return np.frombuffer(ctypes.string_at(value.data_ptr(), size), dtype).reshape(value.shape())
