"""Attributes of ONNX nodes from keyword arguments whose suffix is the type: `alpha_f=0.5`, `axes_i=[0, 1]`."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

__all__ = ["attribute_of"]

#: By suffix: the type of one number or string, the type of a list of them, and the function that converts each item.
_TYPES: dict[str, tuple[ir.AttributeType, ir.AttributeType, Any]] = {
    "f": (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS, float),
    "i": (ir.AttributeType.INT, ir.AttributeType.INTS, int),
    "s": (ir.AttributeType.STRING, ir.AttributeType.STRINGS, str),
}


def attribute_of(key: str, item: Any) -> ir.Attr:
    """The attribute of a keyword argument. Suffixes are those of `torch.onnx`, and `_tp` for a type."""
    name, _, suffix = key.rpartition("_")
    if suffix == "t" and name:
        tensor = item if isinstance(item, ir.TensorProtocol) else TorchTensor(item)
        return ir.Attr(name, ir.AttributeType.TENSOR, tensor)
    if suffix == "tp" and name:
        return ir.Attr(name, ir.AttributeType.TYPE_PROTO, item)
    if suffix == "g" and name:
        return ir.Attr(name, ir.AttributeType.GRAPH, item)
    if suffix not in _TYPES or not name:
        raise TypeError(f"the attribute {key!r} has no type: end its name in _f, _i, _s or _t, as in alpha_f=0.5")
    one, many, convert = _TYPES[suffix]
    if isinstance(item, (list, tuple, torch.Size)):
        return ir.Attr(name, many, tuple(convert(part) for part in item))
    return ir.Attr(name, one, convert(item))
