"""Constants of the graph under construction, and the conversion of operands: casts, promotion, numbers to tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.arrays import to_array
from onnx_parity.exporter.dtypes import FLOAT8, TENSOR_TYPES, TO_ONNX, represents, result_dtype, saturates
from onnx_parity.exporter.files.lazy_tensors import WeightTensor
from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.lowering.opsets import Forms
from onnx_parity.exporter.lowering.values.value import Number, Operand, Value

__all__ = ["Constants"]

_HALVES = (torch.float16, torch.bfloat16)
#: Constants with at most this many elements are compared by value, larger ones by a digest of their bytes.
_COMPARED = 64


def _content(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What equal constants have in common."""
    if tensor.numel() <= _COMPARED:
        return tensor.dtype, tuple(tensor.shape), repr(tensor.tolist())
    return tensor.dtype, tuple(tensor.shape), hashlib.blake2b(to_array(tensor).view(np.uint8).data).digest()


class Constants(Forms):
    """The part of `g` that creates values from numbers and tensors."""

    def __init__(self) -> None:
        self.initializers: dict[str, ir.Value] = {}
        #: Constants by the arguments of `const`, and by what they contain.
        self._constants: dict[tuple[Any, ...] | None, Value] = {}

    def const(self, value: Number | Sequence[Number] | torch.Tensor, dtype: torch.dtype | None = None) -> Value:
        """A constant. Equal ones share one initializer."""
        arguments = None if isinstance(value, torch.Tensor) else (repr(value), dtype)
        known = self._constants.get(arguments)
        if known is not None:
            return known
        tensor = value.to(dtype) if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype)
        tensor = tensor.detach()
        known = self._shared("const", tensor, TorchTensor)
        if arguments is not None:
            self._constants[arguments] = known
        return known

    def literal(self, tensor: torch.Tensor) -> Value:
        """A constant of the program that is no weight, such as a table of positions."""
        tensor = tensor.detach().cpu()
        if tensor.numel() <= _COMPARED:
            return self._shared("const", tensor, TorchTensor)
        return self._shared("literal", tensor, partial(WeightTensor, is_literal=True))

    def _shared(self, name: str, tensor: torch.Tensor, data: Callable[[torch.Tensor], ir.TensorProtocol]) -> Value:
        """The initializer of all constants with the same content, which is made for the first of them."""
        key = _content(tensor)
        known = self._constants.get(key)
        if known is None:
            known = self.initializer(self.new_name(name), data(tensor), tensor.dtype, tuple(tensor.shape))
            known.constant = tensor
            self._constants[key] = known
        return known

    def initializer(self, name: str, data: ir.TensorProtocol, dtype: torch.dtype, shape: tuple[int, ...]) -> Value:
        value = ir.Value(name=name, type=TENSOR_TYPES[dtype], shape=ir.Shape(shape), const_value=data)
        data.name = name
        self.initializers[name] = value
        return Value(value, dtype, shape)

    def unshared(self, tensor: torch.Tensor) -> Value:
        """An initializer of its own: onnxruntime has its kernels of quantized weights only for those of one node."""
        return self.initializer(self.new_name("const"), TorchTensor(tensor), tensor.dtype, tuple(tensor.shape))

    def four_bits(self, integers: torch.Tensor, dtype: torch.dtype) -> Value:
        """Integers from -8 to 7, or bytes from 0 to 15, as numbers of a dtype."""
        return self.op("Cast", *self.few_bits(integers, fewest=4), to_i=TO_ONNX[dtype].value)

    def few_bits(self, *integers: torch.Tensor, fewest: int = 2) -> list[Value]:
        """Tensors of bytes, signed or not, as initializers of the fewest bits that hold all of them and that the opset
        has. Only operators that take such integers may read them."""
        is_signed = integers[0].dtype is torch.int8
        widths = [bits for bits in self.widths_of_integers() if bits >= fewest]
        bits = next(bits for bits in widths if all(_have_bits(each, bits, is_signed) for each in integers))
        return [self._of_bits(each.cpu(), bits, is_signed) for each in integers]

    def _of_bits(self, integers: torch.Tensor, bits: int, is_signed: bool) -> Value:
        if bits == 8:
            return self.unshared(integers)
        onnx = ir.DataType[f"{'INT' if is_signed else 'UINT'}{bits}"]
        name = self.new_name("const")
        value = self.initializer(name, _packed(integers, bits, onnx), integers.dtype, tuple(integers.shape))
        value.ir.type = ir.TensorType(onnx)
        return value

    def scalar(self, number: Number, dtype: torch.dtype) -> Value:
        """A 0-d tensor of a Python number, of a size, or of a number that was read from a tensor."""
        if not isinstance(number, Varying):
            return self.const(number, dtype)
        made = self.cast(self._unknown(number), dtype)
        made.shape = ()
        return made

    def _unknown(self, number: Varying) -> Value:
        if isinstance(number, torch.SymFloat):
            return self.squeeze(self.real(number.node.expr), [0])
        if isinstance(number, torch.SymBool):
            return self.squeeze(self.truth(number.node.expr), [0])
        if number.node.expr.is_Symbol:
            source = self.symbol(str(number.node.expr))
            if source.axis is None and source.value.shape == ():
                return source.value
        return self.squeeze(self.ints([number]), [0])

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """`x` in another dtype; `x` itself if it has that dtype."""
        if x.dtype is dtype:
            return x
        if x.is_small and x.constant is not None:
            return self.const(x.constant, dtype)
        if x.dtype in FLOAT8 and dtype is torch.bool:
            # onnxruntime takes -0.0 of these for true.
            x = self.cast(x, torch.float32)
        if dtype in FLOAT8 and self.opset >= 19 and not saturates(dtype):
            return self.op("Cast", x, to_i=TO_ONNX[dtype].value, saturate_i=0)
        return self.op("Cast", x, to_i=TO_ONNX[dtype].value)

    def accumulating(self, x: Value) -> Value:
        """The value in the dtype in which torch computes with it: that of float32 for numbers of 16 bits.

        Squares neither overflow nor underflow there, and the numbers of the program are not rounded.
        """
        return self.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x

    def promote(self, *operands: Operand, dtype: torch.dtype | None = None) -> list[Value]:
        """The operands in the dtype that torch would compute them in; numbers become constants."""
        if dtype is None:
            dtype = self.result_type(*operands)
        return [
            self.cast(o, dtype) if isinstance(o, Value) else self.scalar(_wrapped_around(o, dtype), dtype)
            for o in operands
        ]

    def promote_exactly(self, *operands: Operand, dtype: torch.dtype, factors: Sequence[Number] = ()) -> list[Value]:
        """The operands of a product or a quotient in the dtype in which torch computes it.

        That is float32 for tensors of 16 bits beside a number, or a tensor of one, that 16 bits cannot represent:
        `x * 1e5` of halves is finite where x is small, and `0 * -1e9` is no NaN. (Of a sum, torch rounds the number to
        16 bits first.) `factors` are further numbers.
        """
        is_exact = dtype not in _HALVES or all(_fits(each, dtype) for each in (*operands, *factors))
        return self.promote(*operands, dtype=dtype if is_exact else torch.float32)

    def result_type(self, *operands: Operand) -> torch.dtype:
        """The dtype in which torch computes with these operands."""
        tensors = [(o.dtype, o.rank) for o in operands if isinstance(o, Value)]
        return result_dtype(tensors, [o for o in operands if not isinstance(o, Value)])


def _have_bits(integers: torch.Tensor, bits: int, is_signed: bool) -> bool:
    low = -(1 << bits - 1) if is_signed else 0
    return bits == 8 or (int(integers.min()) >= low and int(integers.max()) < low + (1 << bits))


def _packed(integers: torch.Tensor, bits: int, dtype: ir.DataType) -> ir.PackedTensor[Any]:
    """Integers with several in each byte, the first one in its lowest bits."""
    count = 8 // bits
    flat = integers.reshape(-1).view(torch.uint8) & (1 << bits) - 1
    columns = torch.nn.functional.pad(flat, (0, -flat.numel() % count)).reshape(-1, count)
    packed = columns[:, 0].clone()
    for place in range(1, count):
        packed |= columns[:, place] << bits * place
    return ir.PackedTensor(packed.numpy(), dtype, shape=ir.Shape(integers.shape))


def _fits(operand: Operand, dtype: torch.dtype) -> bool:
    """Whether 16 bits can represent a number; of a size or of a tensor of one number that is not known."""
    if isinstance(operand, Value):
        if operand.rank != 0 or operand.dtype in (*_HALVES, torch.bool):
            return True
        known = operand.constant if operand.is_small else None
        return known is not None and represents(dtype, known.item())
    return isinstance(operand, (int, float)) and represents(dtype, operand)


def _wrapped_around(number: Number, dtype: torch.dtype) -> Number:
    """A number that a narrower integer dtype cannot represent, wrapped around as in torch."""
    if type(number) is not int or dtype is torch.bool or dtype.is_floating_point or dtype.is_complex:
        return number
    return int(torch.tensor(number).to(dtype).item())
