"""What the forms of all themes stand on: the graph's own primitives, and each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, overload

import torch

from exporter.capture.graph import Size
from exporter.lowering.values import Number, Operand, Value

__all__ = ["Base"]


class Base(ABC):
    """The graph being written, as the forms see it."""

    opset: int

    @overload
    def op(self, name: str, *inputs: Operand | None, outputs: Literal[1] = 1, **attributes: Any) -> Value: ...
    @overload
    def op(self, name: str, *inputs: Operand | None, outputs: int, **attributes: Any) -> tuple[Value, ...]: ...
    @abstractmethod
    def op(
        self, name: str, *inputs: Operand | None, outputs: int = 1, **attributes: Any
    ) -> Value | tuple[Value, ...]: ...
    @abstractmethod
    def const(self, value: Any, dtype: torch.dtype | None = None) -> Value: ...
    @abstractmethod
    def cast(self, x: Value, dtype: torch.dtype) -> Value: ...
    @abstractmethod
    def scalar(self, number: Number, dtype: torch.dtype) -> Value: ...
    @abstractmethod
    def symbol(self, name: str) -> tuple[Value, int]: ...

    # Forms that forms of other themes use.
    @abstractmethod
    def squeeze(self, x: Value, axes: Sequence[int]) -> Value: ...
    @abstractmethod
    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value: ...
    @abstractmethod
    def transpose(self, x: Value, permutation: Sequence[int]) -> Value: ...
    @abstractmethod
    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value: ...
    @abstractmethod
    def ints(self, sizes: Sequence[Size]) -> Value: ...
    @abstractmethod
    def full(self, sizes: Sequence[Size], value: Number, dtype: torch.dtype) -> Value: ...
    @abstractmethod
    def slice(
        self,
        x: Value,
        axes: Sequence[int],
        starts: Sequence[Size],
        ends: Sequence[Size],
        steps: Sequence[int] | None = None,
    ) -> Value: ...
    @abstractmethod
    def less(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def not_equal(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def floor_divide(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def extreme(self, which: Literal["Max", "Min"], a: Value, b: Value) -> Value: ...
    @abstractmethod
    def reduce(self, how: Any, x: Value, axes: Sequence[int] | None, keepdim: bool) -> Value: ...
    @abstractmethod
    def pad(
        self, x: Value, before: Sequence[Size], after: Sequence[Size], mode: Any = "constant", value: Number = 0
    ) -> Value: ...
    @abstractmethod
    def not_number(self, x: Value) -> Value: ...
    @abstractmethod
    def where(self, condition: Value, a: Value, b: Value) -> Value: ...
