"""Runs an exported model: in onnxruntime, or in onnx.reference, the specification's own evaluator."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import onnx
import onnx_ir as ir
import torch
import torch.utils.dlpack

from onnx_parity.exporter.files import write
from onnx_parity.exporter.request.marked_inputs import Given

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Initializer", "ReferenceSession", "RuntimeSession", "errors_of_runtimes", "plain_session"]

#: Makes an onnxruntime session of a model, given as bytes or, when it is large, as a path.
Initializer = Callable[[str | bytes], "onnxruntime.InferenceSession"]


def plain_session(model: str | bytes) -> onnxruntime.InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class RuntimeSession:
    """A model in onnxruntime. One that protobuf cannot hold is written to a folder that lives as long as this."""

    def __init__(self, model: ir.Model, initializer: Initializer = plain_session) -> None:
        #: Where it was written to; None for one that was given as bytes.
        self.path: str | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if not write.fits_inline(model):
            self._folder = tempfile.TemporaryDirectory(prefix="onnx-parity-", ignore_cleanup_errors=True)
            self.path = str(Path(self._folder.name) / "model.onnx")
            write.write_file(model, self.path, external_data=True)
            self.session = initializer(self.path)
        else:
            self.session = initializer(write.serialize(model))

    def run(self, feeds: Mapping[str, Given]) -> list[Any]:
        """The outputs: tensors, lists of them where the model has sequences, None where an optional is none."""
        ends = (*self.session.get_inputs(), *self.session.get_outputs())
        if any(not end.type.startswith("tensor") for end in ends):
            return _run_over_arrays(self.session.run, feeds)
        values = {name: _ort_value(cast("torch.Tensor", tensor)) for name, tensor in feeds.items()}
        return [_tensor_of(value) for value in self.session.run_with_ort_values(None, values)]


class ReferenceSession:
    """A model in onnx.reference, with torch for operators of the domain `org.pytorch.aten`."""

    def __init__(self, model: ir.Model) -> None:
        from onnx.reference import ReferenceEvaluator

        from onnx_parity.exporter.fallback.onnx_reference import ATen

        proto = onnx.load_model_from_string(write.serialize(model))
        self._evaluator = ReferenceEvaluator(proto, new_ops=[ATen])

    def run(self, feeds: Mapping[str, Given]) -> list[Any]:
        return _run_over_arrays(self._evaluator.run, feeds)


def _run_over_arrays(run: Callable[..., Any], feeds: Mapping[str, Given]) -> list[Any]:
    from onnx_parity.exporter.arrays import to_fed, to_tensor

    def restored(result: Any) -> Any:
        if isinstance(result, list):
            return [to_tensor(item) for item in result]
        return None if result is None else to_tensor(result)

    return [restored(result) for result in run(None, {name: to_fed(given) for name, given in feeds.items()})]


def errors_of_runtimes() -> tuple[type[Exception], ...]:
    """What onnxruntime and onnx.reference raise for a model or for inputs that they cannot run."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    of_onnxruntime = [each for each in vars(state).values() if isinstance(each, type) and issubclass(each, Exception)]
    return (*of_onnxruntime, RuntimeError, ValueError, TypeError, NotImplementedError)


def _ort_value(tensor: torch.Tensor) -> onnxruntime.OrtValue:
    """A tensor as onnxruntime takes it. numpy has no bfloat16, so that goes as its bits."""
    import onnxruntime

    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if plain.dtype is torch.bfloat16:
        bits = plain.view(torch.uint16).numpy()
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(plain.numpy())


def _tensor_of(value: onnxruntime.OrtValue) -> torch.Tensor:
    if value.data_type() == "tensor(bfloat16)":
        return torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack())
    return torch.from_numpy(value.numpy())
