"""The domain `org.pytorch.aten` for onnxruntime, whose extensions can call Python functions, and so torch.

Each such function is an operator with fixed types, so each node becomes an operator of its own in a copy of the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnx.helper
import torch

from onnx_parity.exporter.arrays import to_array, to_tensor
from onnx_parity.exporter.errors import ExportError
from onnx_parity.exporter.fallback.encoding import ATEN_DOMAIN
from onnx_parity.exporter.fallback.torch_call import TorchCall
from onnx_parity.exporter.files.subgraphs import graphs_of

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["torch_session"]

#: Python operators are registered for the whole process, under different names.
_numbers = itertools.count()
#: The domain of onnxruntime-extensions' operators, including those in Python.
_EXTENSIONS = "ai.onnx.contrib"
#: Element types that onnxruntime-extensions passes to Python. It has names for more, but crashes with them.
_TYPES: dict[int, str] = {
    onnx.TensorProto.FLOAT: "dt_float",
    onnx.TensorProto.DOUBLE: "dt_double",
    onnx.TensorProto.INT64: "dt_int64",
    onnx.TensorProto.INT32: "dt_int32",
    onnx.TensorProto.INT16: "dt_int16",
    onnx.TensorProto.INT8: "dt_int8",
    onnx.TensorProto.UINT8: "dt_uint8",
    onnx.TensorProto.BOOL: "dt_bool",
}


def torch_session(model: str | bytes) -> onnxruntime.InferenceSession:
    """An onnxruntime session for a model with operators of torch, given as bytes or a path."""
    import onnxruntime

    try:
        import onnxruntime_extensions
    except ImportError as error:
        raise ExportError(
            "the model calls operators of torch, for which onnxruntime needs onnxruntime-extensions, which is not "
            "installed: pip install onnxruntime-extensions, or run the model with call_reference"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    proto = onnx.load(model, load_external_data=False) if isinstance(model, str) else onnx.load_from_string(model)
    types: dict[str, int] = {}
    for graph in graphs_of(proto.graph):
        types |= _types(graph)
        for node in graph.node:
            if node.domain == ATEN_DOMAIN:
                _register(node, types, onnxruntime_extensions)
    # Called last, because the list of operators is read here. An operator that is registered later crashes the process.
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    if all(entry.domain != _EXTENSIONS for entry in proto.opset_import):
        proto.opset_import.append(onnx.helper.make_opsetid(_EXTENSIONS, 1))
    if isinstance(model, bytes):
        return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    # In the folder of the original, where its external data is.
    path = Path(model).with_suffix(".torch.onnx")
    onnx.save(proto, path)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    """The types of its values. (The names of values are unique in a model, also in subgraphs.)"""
    values = (*graph.input, *graph.output, *graph.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _register(node: onnx.NodeProto, types: dict[str, int], extensions: Any) -> None:
    """Replace the node by a Python operator that calls torch."""
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    call = TorchCall.of(attributes)
    present = [bool(name) for name in node.input]
    count = len(node.output)
    name = f"ATen_{next(_numbers)}"
    extensions.onnx_op(
        op_type=name,
        inputs=[_type(types, each, node, extensions) for each in node.input if each],
        outputs=[_type(types, each, node, extensions) for each in node.output],
    )(_python(call, present, count))
    del node.attribute[:]
    inputs = [each for each in node.input if each]
    del node.input[:]
    node.input.extend(inputs)
    node.op_type, node.domain = name, _EXTENSIONS


def _python(call: TorchCall, present: list[bool], count: int) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        remaining = iter(arrays)
        tensors: list[torch.Tensor | None] = [to_tensor(next(remaining)) if there else None for there in present]
        results = tuple(to_array(result) for result in call(tensors)[:count])
        return results if count > 1 else results[0]

    return run


def _type(types: dict[str, int], name: str, node: onnx.NodeProto, extensions: Any) -> Any:
    known = _TYPES.get(types.get(name, 0))
    if known is None:
        dtype = onnx.TensorProto.DataType.Name(types.get(name, 0))
        raise ExportError(
            f"{node.name} calls an operator of torch with a tensor of {dtype}, which onnxruntime-extensions does not "
            "pass to Python: run the model with call_reference"
        )
    return getattr(extensions.PyCustomOpDef, known)
