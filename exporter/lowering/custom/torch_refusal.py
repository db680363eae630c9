"""Checks whether torch refuses a call that it has recorded, since its meta kernels accept all combinations of dtypes.

If a lowering fails on such a call, the error is reported as the program's, with torch's own message.
"""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Node, Varying
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["torchs_refusal"]


def torchs_refusal(node: Node) -> str | None:
    """The message of torch's error if it refuses a node whose operands have several dtypes; None if it does not."""
    dtypes = {value.dtype for value in node.inputs()}
    if not isinstance(node.op, OpOverload) or node.op.namespace != "aten" or len(dtypes) < 2:
        return None
    try:
        with torch.no_grad():
            node.op(**{name: _standing_for(argument) for name, argument in node.arguments.items()})
    except RuntimeError as error:
        return str(error)
    return None


def _standing_for(argument: Any) -> Any:
    """An argument of the same dtype and shape that takes no memory, unless it may be indices: kernels such as that of
    embedding_bag take them to be contiguous, whether they are or not, and would read beyond."""
    if isinstance(argument, AtenValue):
        sizes = [_standing_for(size) for size in argument.shape]
        if not argument.dtype.is_floating_point and not argument.dtype.is_complex:
            return torch.zeros(sizes, dtype=argument.dtype)
        return torch.zeros((), dtype=argument.dtype).expand(sizes)
    if isinstance(argument, list):
        return [_standing_for(item) for item in argument]
    if isinstance(argument, Varying):
        number = argument.node.hint
        # A data-dependent number may have any value. 2 is used, which has no special meaning.
        return argument.node.pytype(2 if number is None else number)
    return argument
