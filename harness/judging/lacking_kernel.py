"""Which kernel a runtime lacks, from its error and the model: `Mod(13) of float16`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx

from onnx_parity.exporter.files.subgraphs import graphs_of, nodes_of

#: What onnxruntime writes: the operator with the opset since which it is as it is, and the node.
_MESSAGE = re.compile(r"Could not find an implementation for ([\w.]+\(\d+\)) node with name '([^']*)'")


def lacking_kernel(error: str, model: onnx.ModelProto) -> str:
    """The operator, and the dtypes of its inputs; the error itself if it does not name an operator."""
    found = _MESSAGE.search(error)
    if found is None:
        return error
    operator, name = found.groups()
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, ValueError):
        # Larger than protobuf can hold, or of operators that onnx does not know: only the operator is named then.
        return operator
    dtypes = dict(_dtypes(inferred.graph))
    op_type = operator.partition("(")[0].rpartition(".")[2]
    nodes = (node for node in nodes_of(inferred.graph) if node.name == name and node.op_type == op_type)
    taken = {dtypes[given]: None for node in nodes for given in node.input if given in dtypes}
    return f"{operator} of {', '.join(taken)}" if taken else operator


def _dtypes(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    for each in graphs_of(graph):
        for value in (*each.input, *each.value_info, *each.output):
            yield value.name, _name(value.type.tensor_type.elem_type)
        for tensor in each.initializer:
            yield tensor.name, _name(tensor.data_type)


def _name(number: int) -> str:
    """ONNX's name of a dtype, `float16`; a sequence has none."""
    return str(onnx.TensorProto.DataType.Name(number)).lower()
