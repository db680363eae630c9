"""Runs models in onnxruntime, and in onnx.reference, the specification's own evaluator.

`ArraySession` passes numpy arrays to onnxruntime and returns them; the harness uses it too. `RuntimeSession` and
`ReferenceSession` do the same with the tensors of an exported program.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import BFLOAT16, Array, Fed, as_tensor, is_float, to_fed, to_tensor
from onnx_parity.exporter.files import write
from onnx_parity.exporter.files.unfinished import name_unfinished, remove_unfinished
from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.exporter.rewrites.products_that_round import products_in_float32

if TYPE_CHECKING:
    import onnxruntime

__all__ = [
    "CPU_PROVIDER",
    "ArraySession",
    "Initializer",
    "ReferenceSession",
    "RuntimeSession",
    "errors_of_empty_axes",
    "errors_of_missing_kernels",
    "errors_of_runtimes",
    "item_by_item",
    "plain_session",
    "session_options",
]

#: Creates an onnxruntime session from a model as bytes or, if it is large, from its path.
Initializer = Callable[[str | bytes], "onnxruntime.InferenceSession"]

CPU_PROVIDER = "CPUExecutionProvider"
#: Severity levels from which onnxruntime logs.
_ERRORS, _FATAL = 3, 4
#: Products with integer weights are computed in float32, as the model says. By default, onnxruntime rounds what is
#: multiplied with them to 8 bits.
_IN_FLOAT32 = ("session.qdq_matmulnbits_accuracy_level", "1")
#: Operators whose floats are some of those that they are given, or follow from them without rounding.
_EXACT = frozenset({
    "Abs", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "Constant", "ConstantOfShape", "DepthToSpace",
    "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop", "Max", "MaxPool",
    "Min", "Neg", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape", "Round", "Scan", "ScatterElements", "ScatterND",
    "Shape", "Sign", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze",
    "Where",
})  # fmt: skip
_BFLOAT16 = "tensor(bfloat16)"
#: The dtypes of arrays that onnxruntime takes as their bits, by the names of its types, with the types of ONNX.
_AS_BITS = {
    _BFLOAT16: (BFLOAT16, ir.DataType.BFLOAT16.value),
    "tensor(float8e4m3fn)": (np.dtype(ml_dtypes.float8_e4m3fn), ir.DataType.FLOAT8E4M3FN.value),
    "tensor(float8e4m3fnuz)": (np.dtype(ml_dtypes.float8_e4m3fnuz), ir.DataType.FLOAT8E4M3FNUZ.value),
    "tensor(float8e5m2)": (np.dtype(ml_dtypes.float8_e5m2), ir.DataType.FLOAT8E5M2.value),
    "tensor(float8e5m2fnuz)": (np.dtype(ml_dtypes.float8_e5m2fnuz), ir.DataType.FLOAT8E5M2FNUZ.value),
}
_ONNX_TYPE = dict(_AS_BITS.values())


def plain_session(model: str | bytes) -> onnxruntime.InferenceSession:
    import onnxruntime

    return onnxruntime.InferenceSession(model, session_options(), providers=[CPU_PROVIDER])


def session_options(*, one_thread: bool = False, level: str = "", silent: bool = False) -> onnxruntime.SessionOptions:
    """Options of a session. `level` is the lower-case name of a `onnxruntime.GraphOptimizationLevel`, such as
    `disable_all`; the default is onnxruntime's, which enables all optimizations.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL if silent else _ERRORS
    options.add_session_config_entry(*_IN_FLOAT32)
    if one_thread:
        options.intra_op_num_threads = options.inter_op_num_threads = 1
    if level:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level.upper()}")
    return options


class ArraySession:
    """An onnxruntime session that takes and returns numpy arrays, also of the dtypes that numpy itself lacks."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        ends = (*session.get_inputs(), *session.get_outputs())
        self._has_bits = any(end.type in _AS_BITS for end in ends)

    def run(self, feeds: Mapping[str, Fed]) -> list[Any]:
        """The outputs: arrays, lists of them where the model has sequences, None for an optional without a value."""
        if not self._has_bits:
            return list(self._session.run(None, dict(feeds)))
        values = {name: _ort_value(cast("Array", array)) for name, array in feeds.items()}
        return [_array(value) for value in self._session.run_with_ort_values(None, values)]


class RuntimeSession:
    """A model in onnxruntime. A model that is too large for protobuf is written to the session's temporary folder."""

    def __init__(self, model: ir.Model, initializer: Initializer = plain_session) -> None:
        #: The path of the written model; None if onnxruntime was given bytes.
        self.path: str | None = None
        with products_in_float32(model):
            self.session = self._created(model, initializer)
        self._arrays = ArraySession(self.session)

    def _created(self, model: ir.Model, initializer: Initializer) -> onnxruntime.InferenceSession:
        if not write.fits_inline(model):
            place = Path(tempfile.gettempdir(), "onnx-parity-session")
            remove_unfinished(place)
            folder = name_unfinished(place)
            folder.mkdir(mode=0o700)
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.path = str(folder / "model.onnx")
            write.write_file(model, self.path, external_data=True)
            return initializer(self.path)
        return initializer(write.serialize(model))

    def run(self, feeds: Mapping[str, Given]) -> list[Any]:
        """The outputs: tensors, lists of them where the model has sequences, None for an optional without a value."""
        return _restored(self._arrays.run(_arrays_of(feeds)), as_tensor)


class ReferenceSession:
    """A model in onnx.reference, with torch for operators of the domain `org.pytorch.aten`.

    With `wide`, it computes in float64 wherever the model has narrower floats.
    """

    def __init__(self, model: ir.Model, *, wide: bool = False) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        from onnx_parity.exporter.fallback.onnx_reference import ATen
        from onnx_parity.exporter.runtime.convolution_of_nothing import Conv

        outline, weights = write.serialize_outline(model)
        self._weights: dict[str, Fed] = {name: tensor.numpy() for name, tensor in weights.items()}
        self._wide = wide
        proto = onnx.load_model_from_string(outline)
        if wide:
            from onnx_parity.exporter.runtime.widening import widen

            proto = widen(proto)
        self._evaluator = ReferenceEvaluator(proto, new_ops=[ATen, Conv])

    def run(self, feeds: Mapping[str, Given]) -> list[Any]:
        given: dict[str, Fed] = {**self._weights, **_arrays_of(feeds)}
        if self._wide:
            from onnx_parity.exporter.runtime.widening import widen_feeds

            given = widen_feeds(given)
        # Copied, because its results may share memory with initializers of the model.
        return _restored(list(self._evaluator.run(None, given)), to_tensor)

    def run_inexactly(self, feeds: Mapping[str, Given], inexact: Callable[[str, Array], Array]) -> list[Any]:
        """The outputs where each operator of the graph that computes floats gives inexact ones."""

        def spoiled(node: Any, run: Callable[..., tuple[Any, ...]], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
            results = run(*args, **kwargs)
            return tuple(inexact(node.op_type, each) if _is_float_array(each) else each for each in results)

        computing = [node for node in self._evaluator.rt_nodes_ if node.op_type not in _EXACT]
        for node in computing:
            node.run = partial(spoiled, node, node.run)
        try:
            return self.run(feeds)
        finally:
            for node in computing:
                del node.run


def _is_float_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and is_float(value.dtype)


def _arrays_of(feeds: Mapping[str, Given]) -> dict[str, Fed]:
    return {name: to_fed(given) for name, given in feeds.items()}


def _restored(results: Sequence[Any], tensor_of: Callable[[object], torch.Tensor]) -> list[Any]:
    """Results of a runtime as tensors, lists of tensors and None."""

    def restored(result: Any) -> Any:
        if isinstance(result, list):
            return [tensor_of(item) for item in result]
        return None if result is None else tensor_of(result)

    return [restored(result) for result in results]


def item_by_item(outputs: Sequence[Any]) -> list[Any]:
    """A model's outputs as a flat list: sequences contribute their items, and empty optionals nothing."""
    every = [item for output in outputs for item in (output if isinstance(output, list) else [output])]
    return [item for item in every if item is not None]


def errors_of_runtimes() -> tuple[type[Exception], ...]:
    """The exceptions that onnxruntime and onnx.reference raise for a model or inputs that they cannot run."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    of_onnxruntime = [each for each in vars(state).values() if isinstance(each, type) and issubclass(each, Exception)]
    return (*of_onnxruntime, RuntimeError, ValueError, TypeError, NotImplementedError)


def errors_of_empty_axes() -> tuple[type[Exception], ...]:
    """The exceptions that onnx.reference raises for arrays of no elements."""
    return (*errors_of_runtimes(), ArithmeticError, LookupError, AssertionError)


def errors_of_missing_kernels() -> tuple[type[Exception], ...]:
    """The exceptions that onnxruntime raises if it has no kernel for an operator of a valid model, or for its types."""
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

    return (NoKernel,)


def _ort_value(array: Array) -> onnxruntime.OrtValue:
    """An array as a value of onnxruntime, which takes the dtypes that numpy lacks as arrays of their bits."""
    import onnxruntime

    onnx_type = _ONNX_TYPE.get(array.dtype)
    if onnx_type is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    # Not ascontiguousarray, which turns a 0-d array into a 1-d array.
    bits = np.asarray(array, order="C").view(np.uint16 if array.itemsize == 2 else np.uint8)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx_type)


def _array(value: onnxruntime.OrtValue) -> Array:
    """The array of a value of onnxruntime, which does not convert all dtypes to numpy: those are read from memory."""
    known = _AS_BITS.get(value.data_type())
    if known is None:
        array: Array = value.numpy()
        return array
    dtype, _ = known
    size = math.prod(value.shape()) * dtype.itemsize
    if not size:
        return np.empty(value.shape(), dtype)
    memory = (ctypes.c_uint8 * size).from_address(value.data_ptr())
    return np.frombuffer(bytearray(memory), dtype).reshape(value.shape())
