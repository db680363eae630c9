"""What an export returns: the model, ready to be looked at, saved and run."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import onnx
import onnx_ir as ir
import torch
import torch.utils.dlpack
from torch.utils import _pytree as pytree

from exporter import write
from exporter.capture.results import Kind, Returned
from exporter.errors import ArgumentError

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["ONNXProgram"]


class ONNXProgram:
    """An exported program. `model` is its `onnx_ir.Model`; call it to run it in onnxruntime."""

    def __init__(self, model: ir.Model, returned: Returned, opset_version: int) -> None:
        self.model = model
        self.opset_version = opset_version
        self._returned = returned
        self._session: onnxruntime.InferenceSession | None = None

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message, weights inside."""
        return onnx.load_model_from_string(self.serialize())

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(value.name or "" for value in self._actual_inputs())

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(value.name or "" for value in self.model.graph.outputs)

    def serialize(self) -> bytes:
        """The model as bytes, weights inside."""
        return write.serialize(self.model)

    def save(self, destination: str | os.PathLike[str] | BinaryIO, *, external_data: bool | None = None) -> None:
        """Write the model to a path or to an open binary file.

        `external_data=True` puts the weights into `<path>.data`; by default that happens only when they do not fit
        into one protobuf file (2 GiB). A path is written aside and renamed: it holds the whole model or what it held
        before.
        """
        if isinstance(destination, (str, os.PathLike)):
            write.write_file(self.model, destination, external_data)
        elif external_data:
            raise ArgumentError("external_data=True needs a path to put the weights beside: give `f` as a path")
        elif not hasattr(destination, "write") or isinstance(destination, io.TextIOBase):
            raise ArgumentError(
                f"`f` is {destination!r}: give a path, or a file opened for writing bytes (open(..., 'wb'))"
            )
        else:
            write.write_to(self.model, destination)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model in onnxruntime, with arguments and results structured as the program's."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        names = self.input_names
        if len(tensors) != len(names):
            raise ArgumentError(f"the model takes {len(names)} tensors ({', '.join(names)}), and got {len(tensors)}")
        if self._session is None:
            self._session = self._start_session()
        feeds = {name: _ort_value(tensor) for name, tensor in zip(names, tensors, strict=True)}
        results = map(_tensor_of, self._session.run_with_ort_values(None, feeds))
        leaves: list[Any] = []
        for kind, plain in zip(self._returned.kinds, self._returned.plain, strict=True):
            if kind is Kind.PLAIN:
                leaves.append(plain)
            else:
                leaves.append(next(results) if kind is Kind.TENSOR else int(next(results)))
        return pytree.tree_unflatten(leaves, self._returned.spec)

    def _start_session(self) -> onnxruntime.InferenceSession:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(self.serialize(), options, providers=["CPUExecutionProvider"])

    def _actual_inputs(self) -> list[ir.Value]:
        """The inputs without the weights that old IR versions list among them."""
        initializers = self.model.graph.initializers
        return [value for value in self.model.graph.inputs if value.name not in initializers]

    def __repr__(self) -> str:
        nodes = len(self.model.graph)
        size = write.size_of_weights(self.model)
        ends = f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"
        return f"ONNXProgram(opset {self.opset_version}: {ends}; {nodes} nodes, {size:,} bytes of weights)"


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
