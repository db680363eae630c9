"""Products with weights of a few bits, in which onnxruntime may round what is multiplied with the weights to 8 bits.

It does so with a MatMul of a DequantizeLinear, unless an option of the session says otherwise. `MatMulNBits` has an
attribute for it, which no option changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes

__all__ = ["MAY_ROUND", "ROUNDED", "products_in_float32"]

#: In the metadata of a product that a rewrite has made.
MAY_ROUND = "may round"
#: The values of the attribute `accuracy_level`.
_FLOAT32, ROUNDED = 1, 4


@contextmanager
def products_in_float32(model: ir.Model) -> Iterator[None]:
    """A context in which such products of the model round nothing."""
    rounding = [node for node in all_nodes(model.graph) if MAY_ROUND in node.meta]
    for node in rounding:
        node.attributes.add(ir.AttrInt64("accuracy_level", _FLOAT32))
    try:
        yield
    finally:
        for node in rounding:
            node.attributes.add(ir.AttrInt64("accuracy_level", ROUNDED))
