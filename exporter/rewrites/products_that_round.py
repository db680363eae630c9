"""Products with weights of a few bits, in which onnxruntime may round what is multiplied with the weights to 8 bits.

It does so with a MatMul of a DequantizeLinear, unless an option of the session says otherwise. `MatMulNBits` has an
attribute for it, which no option changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as ir
from torch import Tensor
from torch.nn.functional import pad

from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes
from onnx_parity.exporter.rewrites.engine.rewriter import Walk, op

__all__ = ["DOMAIN", "packed", "product_with_bits", "products_in_float32"]

#: The domain of onnxruntime's own operators.
DOMAIN = "com.microsoft"

#: In the metadata of a product that a rewrite has made.
_MAY_ROUND = "may round"
#: The values of the attribute `accuracy_level`.
_FLOAT32, _ROUNDED = 1, 4


def product_with_bits(
    node: ir.Node, inputs: Sequence[ir.Value], matrix: tuple[int, int], bits: int, block_size: int, walk: Walk
) -> ir.Value:
    """The result of `MatMulNBits` before a node, with rows, integers, scales and zero points."""
    product = op(
        "MatMulNBits", *inputs, K=matrix[0], N=matrix[1], bits=bits, block_size=block_size, accuracy_level=_ROUNDED,
        sizes=node.outputs[0].shape, dtype=inputs[0].dtype, domain=DOMAIN,
    )  # fmt: skip
    result = walk.add(product, node)
    producer = result.producer()
    assert producer is not None
    producer.meta[_MAY_ROUND] = True
    return result


def packed(integers: Tensor, bits: int) -> Tensor:
    """Several integers in each byte, along the last axis, the first of them in the lowest bits."""
    count = 8 // bits
    padded = pad(integers, (0, -integers.shape[-1] % count))
    made = padded[..., ::count]
    for place in range(1, count):
        made = made | padded[..., place::count] << bits * place
    return made


@contextmanager
def products_in_float32(model: ir.Model) -> Iterator[None]:
    """A context in which such products of the model round nothing."""
    rounding = [node for node in all_nodes(model.graph) if _MAY_ROUND in node.meta]
    for node in rounding:
        node.attributes.add(ir.AttrInt64("accuracy_level", _FLOAT32))
    try:
        yield
    finally:
        for node in rounding:
            node.attributes.add(ir.AttrInt64("accuracy_level", _ROUNDED))
