"""Weights of products as integers of a few bits, for `weight_bits` of `export` alone.

    MatMul(x, Transpose(weight)), MatMul(x, weight), Gemm(x, weight, bias)
        ->  MatMul(x, DequantizeLinear(integers, scales, in blocks)) + bias
        ->  MatMulNBits(x, integers, scales) + bias, for onnxruntime

Each block of 32 numbers that are multiplied with one row has a scale, with which the number of the largest magnitude
is the lowest of the integers. Integers and scales are computed when the model is written, from blocks of rows of the
weight, so that neither a weight nor its integers are in memory before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import onnx_ir as ir
import torch
from torch import Tensor

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor, WeightTensor
from onnx_parity.exporter.rewrites.engine.matching import is_plain_product, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op
from onnx_parity.exporter.rewrites.products_that_round import packed, product_with_bits

__all__ = ["few_bits"]

_BLOCK = 32
_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
#: How many numbers of a weight are quantized at a time: as many as a processor's cache holds.
_AT_A_TIME = 1 << 19


class _Product(msgspec.Struct, frozen=True):
    """Rows, and the weight that they are multiplied with: its columns, or its rows if it `is_turned`."""

    x: ir.Value
    weight: WeightTensor
    name: str | None
    is_turned: bool
    bias: ir.Value | None

    @property
    def matrix(self) -> tuple[int, int]:
        """How many features the product is given, and how many it has."""
        rows, columns = self.weight.shape.numpy()
        return (columns, rows) if self.is_turned else (rows, columns)

    def columns(self, start: int, end: int) -> Tensor:
        """Columns of the matrix, each as a row."""
        return self.weight.rows(start, end) if self.is_turned else self.weight.rows()[:, start:end].t()


def few_bits(bits: int, for_onnxruntime: bool) -> Sequence[Rewrite[Any]]:
    write: Callable[[ir.Node, _Product, Walk], Op | ir.Value]
    write = partial(_packed_product if for_onnxruntime else _product, bits)
    return (Rewrite(name=f"weight of {bits} bits", at=("MatMul", "Gemm"), find=_find, write=write),)


def _find(node: ir.Node, _walk: Walk) -> _Product | NoMatch:
    x, right, *bias = node.inputs
    turn = producer_of(right, "Transpose")
    value = right if turn is None else turn.inputs[0]
    if x is None or value is None or not is_plain_product(node) or len(x.shape or ()) < 2:
        return NoMatch("it is no plain product of rows")
    weight = value.const_value if value.is_initializer() else None
    if not isinstance(weight, WeightTensor) or len(weight.shape) != 2 or weight.dtype not in _DTYPES:
        return NoMatch("it multiplies with no weight, or in a dtype without a kernel")
    if turn is not None and [each.value for each in turn.attributes.values()] not in ([], [[1, 0]], [(1, 0)]):
        return NoMatch("the weight is not transposed")
    is_turned = (turn is not None) is not (node.attributes.get_int("transB", 0) == 1)
    found = _Product(x, weight, value.name, is_turned, bias[0] if bias else None)
    return found if found.matrix[0] % _BLOCK == 0 and 0 not in found.matrix else NoMatch("its features are no blocks")


def _product(bits: int, node: ir.Node, found: _Product, walk: Walk) -> Op:
    features, columns = found.matrix
    dtype = ir.DataType.INT4 if bits == 4 else ir.DataType.INT8

    def integers() -> Tensor:
        if bits == 8 or columns % 2:
            made = _whole(found, partial(_quantized, bits=bits)).t().contiguous()
            return made if bits == 8 else packed(made.view(torch.uint8).reshape(-1) & 15, bits)
        # A byte has two columns. So half as many bytes are put in order.
        return _whole(found, _pairs).t().reshape(-1)

    known = walk.constants.lazy(
        ("integers", found.name, found.is_turned),
        lambda: LazyTorchTensor(integers, torch.int8, (features, columns), stored_as=dtype if bits == 4 else None),
        node,
    )
    scales = walk.constants.lazy(
        ("scales", found.name, found.is_turned),
        lambda: LazyTorchTensor(
            lambda: _whole(found, partial(_scales, bits=bits)).t().contiguous(),
            TO_TORCH[found.weight.dtype],
            (features // _BLOCK, columns),
        ),
        node,
    )
    weight = op(
        "DequantizeLinear", known, scales, axis=0, block_size=_BLOCK, sizes=found.matrix, dtype=found.weight.dtype
    )
    product = op("MatMul", found.x, weight, sizes=node.outputs[0].shape)
    return product if found.bias is None else op("Add", product, found.bias)


def _packed_product(bits: int, node: ir.Node, found: _Product, walk: Walk) -> Op | ir.Value:
    """As onnxruntime's operator wants them: the integers of each column, from zero on, with two of four bits in each
    byte."""
    features, columns = found.matrix
    blocks = features // _BLOCK

    def integers(start: int, end: int) -> Tensor:
        signed = _quantized(found.columns(start, end), bits).view(torch.uint8)
        made = (signed ^ 1 << bits - 1) & (1 << bits) - 1
        return packed(made, bits).reshape(end - start, blocks, -1)

    def scales(start: int, end: int) -> Tensor:
        return _scales(found.columns(start, end), bits)

    def lazy(what: str, rows: Callable[[int, int], Tensor], dtype: torch.dtype, last: tuple[int, ...]) -> ir.Value:
        # A weight that is not turned is read as a whole for each of its columns.
        in_blocks = rows if found.is_turned else None
        return walk.constants.lazy(
            (what, found.name, found.is_turned),
            lambda: LazyTorchTensor(lambda: rows(0, columns), dtype, (columns, *last), rows=in_blocks),
            node,
        )

    inputs = (
        found.x,
        lazy("integers", integers, torch.uint8, (blocks, _BLOCK * bits // 8)),
        lazy("scales", scales, TO_TORCH[found.weight.dtype], (blocks,)),
    )
    product = product_with_bits(node, inputs, found.matrix, bits, _BLOCK, walk)
    return product if found.bias is None else op("Add", product, found.bias)


def _whole(found: _Product, make: Callable[[Tensor], Tensor]) -> Tensor:
    """What is made of all columns, from some of them at a time, which are an even number."""
    features, columns = found.matrix
    step = max(2, _AT_A_TIME // features // 2 * 2)
    starts = range(0, columns, step)
    return torch.cat([make(found.columns(start, min(start + step, columns))) for start in starts])


def _pairs(rows: Tensor) -> Tensor:
    """The integers of four bits of rows, those of two rows in each byte."""
    made = _quantized(rows, 4).view(torch.uint8)
    return made[::2] & 15 | made[1::2] << 4


def _quantized(rows: Tensor, bits: int) -> Tensor:
    """The integers of rows."""
    lowest = 1 << bits - 1
    blocks = _blocks(rows)
    divisors = _scales_of(blocks, bits).to(rows.dtype).unsqueeze(-1).float()
    divisors.masked_fill_(divisors == 0, 1)
    integers = (blocks / divisors).round_().clamp_(-lowest, lowest - 1)
    return integers.flatten(-2).to(torch.int8)


def _scales(rows: Tensor, bits: int) -> Tensor:
    """The scale of each block of rows."""
    return _scales_of(_blocks(rows), bits).to(rows.dtype)


def _scales_of(blocks: Tensor, bits: int) -> Tensor:
    # `aminmax` takes four times as long as both.
    least, most = blocks.amin(-1), blocks.amax(-1)
    return torch.where(most > -least, most, least) / -(1 << bits - 1)


def _blocks(rows: Tensor) -> Tensor:
    blocks: Tensor = rows.float().unflatten(-1, (-1, _BLOCK))
    return blocks
