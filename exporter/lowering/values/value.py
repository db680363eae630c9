"""A value of the ONNX graph as lowerings use it: with torch's dtype, torch's shape, and its constant if known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import onnx_ir as ir
import torch

from onnx_parity.exporter.graph.graph import Holds, Size, Varying

__all__ = ["Number", "Operand", "TensorType", "Value"]

Number: TypeAlias = bool | int | float | complex | Varying


class Value:
    """A value whose dtype is always known, and whose shape is known if it is the result of an ATen operator."""

    __slots__ = (
        "_constant", "counts", "dtype", "filled", "has_assumed_dtype", "ir", "is_constant_read", "is_weight", "repeats",
        "shape",
    )  # fmt: skip

    def __init__(self, value: ir.Value, dtype: torch.dtype, shape: tuple[Size, ...] | None) -> None:
        self.ir = value
        self.dtype = dtype
        self.shape = shape
        self._constant: torch.Tensor | None = None
        #: Whether a lowering has read the constant, so that the model may depend on it in any way.
        self.is_constant_read = False
        #: Whether it is a parameter or a buffer of the program.
        self.is_weight = False
        #: The number that all elements are equal to, if known.
        self.filled: Number | None = None
        #: The value whose elements it repeats along some axes, if it is the result of an expansion.
        self.repeats: Value | None = None
        #: The axis, from the last one, -1, along which its elements are 0, 1, ..., if its other axes have size 1.
        self.counts: int | None = None
        #: Whether it is the result of an operator that ONNX does not know, whose dtype is therefore assumed.
        self.has_assumed_dtype = False

    @property
    def constant(self) -> torch.Tensor | None:
        """The tensor, on the CPU, if it is known at export and will not be replaced later."""
        if self._constant is None:
            return None
        self.is_constant_read = True
        self._constant = self._constant.cpu()
        return self._constant

    @constant.setter
    def constant(self, tensor: torch.Tensor | None) -> None:
        self._constant = tensor

    @property
    def everywhere(self) -> bool | int | float | None:
        """The number that all elements are known to be equal to, also where it repeats them; None if there is none."""
        source = self.repeats or self
        if source.filled is not None:
            return source.filled if isinstance(source.filled, (bool, int, float)) else None
        known = source.constant
        if known is None or not known.numel() or known.is_complex():
            return None
        first = known.reshape(-1)[0]
        return first.item() if bool((known == first).all()) else None

    @property
    def has_no_nan(self) -> bool:
        """Whether it is known that no element is NaN. This does not count as reading a weight."""
        source = self.repeats or self
        if not self.dtype.is_floating_point:
            return True
        if isinstance(source.filled, (int, float)):
            return not math.isnan(source.filled)
        known = None if source.is_weight else source.constant
        return known is not None and not bool(known.isnan().any())

    @property
    def is_small(self) -> bool:
        """Whether the constant is known and has few elements. This does not count as reading it."""
        return self._constant is not None and self._constant.numel() <= 64

    @property
    def holds(self) -> Holds:
        """Whether it is a tensor, a sequence or an optional."""
        match self.ir.type:
            case ir.SequenceType():
                return Holds.LIST
            case ir.OptionalType():
                return Holds.OPTIONAL
        return Holds.TENSOR

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The shape. Raises `TypeError` if it is not known."""
        if self.shape is None:
            raise TypeError(f"the shape of {self.ir.name} is not known: use that of an argument or of g.out")
        return self.shape

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def type(self) -> TensorType:
        """The type, in the interface of `torch.onnx`."""
        return TensorType(self.dtype, self.shape)

    def setType(self, given: TensorType) -> Value:
        """Set the dtype of the result of an operator that ONNX does not know. Sizes are ignored: torch knows them."""
        if self.has_assumed_dtype:
            self.dtype = given.dtype()
        return self

    def __repr__(self) -> str:
        return f"Value({self.ir.name}: {self.dtype}{'' if self.shape is None else list(self.shape)})"


class TensorType:
    """The type of a value, in the interface of `torch.onnx`."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, dtype: torch.dtype, shape: Sequence[Size | None] | None) -> None:
        self._dtype = dtype
        self._shape = shape

    def sizes(self) -> list[int | None] | None:
        """The sizes, with None for each dynamic one; None if the rank is not known."""
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

#: What `g.op` takes as an input.
Operand: TypeAlias = Value | Number
