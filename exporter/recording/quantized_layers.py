"""What a layer computes whose weight is quantized: a product with a dequantized matrix, or rows of a table.

A product with `onnx_parity::dequantize_blocks` is what runtimes have kernels for, in which integers stay integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Node, Value, operator_name
from onnx_parity.exporter.own_operators import define

__all__ = ["Matrix", "Writer"]

_aten = torch.ops.aten

#: (ints - zero_point) * scale of a matrix. Along its first axis, each block of this size has a scale; if that is 0,
#: each column has one, or the whole matrix.
_DEQUANTIZE_BLOCKS = define(
    "dequantize_blocks(Tensor ints, Tensor scale, Tensor? zero_point, int block_size) -> Tensor",
    lambda ints, scale, zero_point, block_size: ints.new_empty(ints.shape, dtype=scale.dtype),
)

#: The least size of a block for which runtimes have kernels.
_SMALLEST_BLOCK = 16


class Matrix(msgspec.Struct, frozen=True, eq=False):
    """A matrix that rows are multiplied with, or a table of columns: `(integers - zero_point) * scale`, all three of
    its shape."""

    integers: torch.Tensor
    zero_point: torch.Tensor | None
    scale: torch.Tensor

    def is_equal(self, computed: torch.Tensor) -> bool:
        """Whether it is what the program computes, up to rounding, and zero points are integers like the others."""
        start = self.zero_point
        ends = [number for each in (self.integers, start) if each is not None for number in torch.aminmax(each)]
        least, most = int(min(ends)), int(max(ends))
        if least < -128 or most > (127 if least < 0 else 255):
            return False
        if start is not None and not torch.equal(start, start.round()):
            return False
        exact = (self.integers if start is None else self.integers - start) * self.scale.float()
        # The weights of a program in bfloat16 are rounded by so much that others than those are other results.
        rounding = 0 if computed.dtype is torch.bfloat16 else 2 * torch.finfo(computed.dtype).eps
        apart = (exact - computed).abs_()
        return bool((apart <= computed.float().abs_().mul_(rounding)).all())


class Writer:
    """Writes what is computed instead of a node that reads a weight, and of the node that scales its result."""

    def __init__(self, node: Node, last: Node) -> None:
        self._node = node
        self._output = last.outputs[0]
        self._nodes: list[Node] = []

    def product(self, matrix: Matrix) -> list[Node] | None:
        found = _blocks_in_order(matrix)
        if found is None:
            return None
        matrix, block, order = found
        arguments = self._node.arguments
        x: Value = arguments[{"aten::addmm": "mat1", "aten::linear": "input"}.get(operator_name(self._node.op), "self")]
        bias = arguments.get("bias")
        dtype, wide = x.dtype, torch.float32 if x.dtype is torch.bfloat16 else x.dtype
        if order is not None:
            x = self._add(
                _aten.index_select.default, x.shape, x.dtype, {"self": x, "dim": -1, "index": _constant(order)}
            )
        x = self._cast(x, wide)
        weight = self._weight(matrix, block, wide)
        assert self._output is not None
        shape = self._output.shape
        if operator_name(self._node.op) == "aten::addmm":
            rest: dict[str, Any] = {name: arguments[name] for name in ("beta", "alpha") if name in arguments}
            bias = self._cast(arguments["self"], wide)
            result = self._add(_aten.addmm.default, shape, wide, {"self": bias, "mat1": x, "mat2": weight, **rest})
        elif bias is not None and len(x.shape) == 2:
            bias = self._cast(bias, wide)
            result = self._add(_aten.addmm.default, shape, wide, {"self": bias, "mat1": x, "mat2": weight})
        else:
            result = self._add(_aten.matmul.default, shape, wide, {"self": x, "other": weight})
            if bias is not None:
                result = self._add(_aten.add.Tensor, shape, wide, {"self": result, "other": self._cast(bias, wide)})
        return self._ended(self._cast(result, dtype))

    def embedding(self, matrix: Matrix) -> list[Node] | None:
        """The rows of the integers, of their zero points and of their scales, before they are multiplied."""
        block = _block_of(matrix.scale, matrix.zero_point)
        if block is None:
            return None
        width = len(matrix.integers)
        blocks = (width // (block or width), block or width)
        places: Value = self._node.arguments["indices"]
        assert self._output is not None
        dtype = self._output.dtype

        def rows(table: torch.Tensor) -> Value:
            sizes = (*places.shape, *table.shape[1:])
            arguments = {"weight": _constant(table.contiguous()), "indices": places}
            return self._add(_aten.embedding.default, sizes, table.dtype, arguments)

        def of_blocks(table: torch.Tensor) -> Value:
            return rows(table[:: blocks[1]].t().unsqueeze(-1).to(dtype))

        number, added = self._integers_of(rows, matrix.integers.t(), dtype)
        shape = (*places.shape, *blocks)
        number = self._add(_aten.view.default, shape, dtype, {"self": number, "size": list(shape)})
        if matrix.zero_point is not None:
            start = of_blocks(matrix.zero_point - added)
            number = self._add(_aten.sub.Tensor, shape, dtype, {"self": number, "other": start})
        elif added:
            number = self._add(_aten.add.Tensor, shape, dtype, {"self": number, "other": added})
        scaled = self._add(_aten.mul.Tensor, shape, dtype, {"self": number, "other": of_blocks(matrix.scale)})
        sizes = self._output.shape
        return self._ended(self._add(_aten.view.default, sizes, dtype, {"self": scaled, "size": list(sizes)}))

    def _integers_of(
        self, rows: Callable[[torch.Tensor], Value], integers: torch.Tensor, dtype: torch.dtype
    ) -> tuple[Value, int]:
        """The rows of the integers as floats, and a number that is to be added to each."""
        least, most = int(integers.min()), int(integers.max())
        low = -8 if least < 0 else 0
        if integers.shape[1] % 2 or least < low or most >= low + 16:
            return self._cast(rows(integers.to(torch.int8 if least < 0 else torch.uint8)), dtype), 0
        # Two in each byte: the first half of a row, and the second.
        first, second = (integers - low).to(torch.uint8).chunk(2, dim=1)
        both = self._cast(rows(first | second << 4), dtype)
        half = both.shape
        above = self._add(_aten.mul.Tensor, half, dtype, {"self": both, "other": 1 / 16})
        above = self._add(_aten.floor.default, half, dtype, {"self": above})
        under = self._add(_aten.sub.Tensor, half, dtype, {"self": both, "other": above, "alpha": 16})
        shape = (*half[:-1], integers.shape[1])
        return self._add(_aten.cat.default, shape, dtype, {"tensors": [under, above], "dim": -1}), low

    def _weight(self, matrix: Matrix, block: int, dtype: torch.dtype) -> Value:
        least = int(matrix.integers.min())
        start = matrix.zero_point
        is_signed = least < 0 or (start is not None and int(start.min()) < 0)
        kind = torch.int8 if is_signed or (start is None and int(matrix.integers.max()) < 128) else torch.uint8

        def of_blocks(numbers: torch.Tensor, dtype: torch.dtype) -> Value:
            return _constant((numbers[::block] if block else numbers[0]).to(dtype).contiguous())

        zero_point = None if start is None else of_blocks(start, kind)
        ints = _constant(matrix.integers.to(kind).contiguous())
        scale = of_blocks(matrix.scale, dtype)
        shape = tuple(matrix.integers.shape)
        return self._add(
            _DEQUANTIZE_BLOCKS,
            shape,
            dtype,
            {"ints": ints, "scale": scale, "zero_point": zero_point, "block_size": block},
        )

    def _cast(self, value: Value, dtype: torch.dtype) -> Value:
        return (
            value
            if value.dtype is dtype
            else self._add(_aten._to_copy.default, value.shape, dtype, {"self": value, "dtype": dtype})
        )

    def _add(self, op: Any, shape: Sequence[Any], dtype: torch.dtype, arguments: dict[str, Any]) -> Value:
        node = Node(op, arguments, self._node.origin)
        value = Value(dtype, tuple(shape), node=node)
        node.outputs = [value]
        self._nodes.append(node)
        return value

    def _ended(self, result: Value) -> list[Node]:
        """The nodes, of which the last one has the old result."""
        assert result.node is self._nodes[-1]
        self._nodes[-1].outputs = [self._output]
        return self._nodes


def _constant(tensor: torch.Tensor) -> Value:
    return Value(tensor.dtype, tuple(tensor.shape), constant=tensor)


def _blocks_in_order(matrix: Matrix) -> tuple[Matrix, int, torch.Tensor | None] | None:
    """The matrix, the size of its blocks, and the order of features in which they are blocks, if it is another."""
    block = _block_of(matrix.scale, matrix.zero_point)
    if block is not None:
        return matrix, block, None
    groups = _groups(matrix)
    order = torch.argsort(groups, stable=True)
    scale, start = matrix.scale[order], None if matrix.zero_point is None else matrix.zero_point[order]
    block = _block_of(scale, start)
    return None if block is None else (Matrix(matrix.integers[order], start, scale), block, order)


def _groups(matrix: Matrix) -> torch.Tensor:
    """Numbers of the groups of rows that have the same scales and zero points."""
    columns = [matrix.scale] if matrix.zero_point is None else [matrix.scale, matrix.zero_point]
    weights = torch.linspace(1, 2, matrix.scale.shape[1], dtype=torch.float64)
    sums = torch.stack([each.double() @ weights for each in columns], 1)
    numbers: torch.Tensor = torch.unique(sums, dim=0, return_inverse=True)[1]
    return numbers


def _block_of(scale: torch.Tensor, start: torch.Tensor | None) -> int | None:
    """The size of the blocks along the first axis whose rows have the same scales and zero points; 0 if all rows have,
    and None if the blocks are too small."""
    changes = (scale[1:] != scale[:-1]).any(1)
    if start is not None:
        changes |= (start[1:] != start[:-1]).any(1)
    places = (changes.nonzero().flatten() + 1).tolist()
    if not places:
        return 0
    size = math.gcd(len(scale), *places)
    size &= -size
    return size if size >= _SMALLEST_BLOCK else None
