"""A tensor in the ONNX graph, as lowerings see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import onnx_ir as ir
import torch

from onnx_parity.exporter.capture.graph.graph import Holds, Size, Varying

__all__ = ["Number", "Operand", "TensorType", "Value"]

Number: TypeAlias = bool | int | float | complex | Varying


class Value:
    """A tensor: its dtype is always known, its shape where it is the result of an ATen operator."""

    __slots__ = ("_constant", "dtype", "filled", "ir", "is_foreign", "looked_at", "shape")

    def __init__(self, value: ir.Value, dtype: torch.dtype, shape: tuple[Size, ...] | None) -> None:
        self.ir = value
        self.dtype = dtype
        self.shape = shape
        self._constant: torch.Tensor | None = None
        #: Whether a lowering has asked for its value, and may have built that in.
        self.looked_at = False
        #: The number that it is filled with, where that is known.
        self.filled: Number | None = None
        #: The result of an operator that ONNX knows nothing of, whose dtype is a guess.
        self.is_foreign = False

    @property
    def constant(self) -> torch.Tensor | None:
        """The value, where it is known and a lowering may look at it."""
        self.looked_at = self._constant is not None
        return self._constant

    @constant.setter
    def constant(self, tensor: torch.Tensor | None) -> None:
        self._constant = tensor

    @property
    def is_small(self) -> bool:
        """Whether its value is known and of so few elements that a copy costs nothing."""
        return self._constant is not None and self._constant.numel() <= 64

    @property
    def holds(self) -> Holds:
        """What it is: a tensor, or what holds some."""
        match self.ir.type:
            case ir.SequenceType():
                return Holds.LIST
            case ir.OptionalType():
                return Holds.OPTIONAL
        return Holds.TENSOR

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The shape, for lowerings that need it."""
        if self.shape is None:
            raise TypeError(f"the shape of {self.ir.name} is not known: take it from an argument or from g.out")
        return self.shape

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def type(self) -> TensorType:
        """What symbolic functions written for `torch.onnx` ask."""
        return TensorType(self.dtype, self.shape)

    def setType(self, given: TensorType) -> Value:
        """What they say of operators that ONNX does not know. Sizes are known from torch, and need not be said."""
        if self.is_foreign:
            self.dtype = given.dtype()
        return self

    def __repr__(self) -> str:
        return f"Value({self.ir.name}: {self.dtype}{'' if self.shape is None else list(self.shape)})"


class TensorType:
    """The type of a value, in the words of `torch.onnx`."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, dtype: torch.dtype, shape: Sequence[Size | None] | None) -> None:
        self._dtype = dtype
        self._shape = shape

    def sizes(self) -> list[int | None] | None:
        """The sizes, None where one may vary; None altogether where the rank is not known."""
        return None if self._shape is None else [size if isinstance(size, int) else None for size in self._shape]

    def dim(self) -> int | None:
        return None if self._shape is None else len(self._shape)

    def dtype(self) -> torch.dtype:
        return self._dtype

    def scalarType(self) -> str:
        return _SCALAR_TYPES[self._dtype]

    def with_sizes(self, sizes: Sequence[int | None]) -> TensorType:
        return TensorType(self._dtype, sizes)

    def with_dtype(self, dtype: torch.dtype) -> TensorType:
        return TensorType(dtype, self._shape)


_SCALAR_TYPES = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}

#: What may stand where an operator takes a tensor.
Operand: TypeAlias = Value | Number
