"""The methods of the graph under construction that the modules of this folder use, including those of each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, overload

import onnx_ir as ir
import torch

from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.graph.graph import Block, Size, SymbolSource
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.lowering.values.shapes import may_be_empty
from onnx_parity.exporter.lowering.values.subgraph import Body
from onnx_parity.exporter.lowering.values.value import Number, Operand, Value

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression

__all__ = ["Base"]


class Base(ABC):
    """The graph under construction, of which each module of this folder implements some methods."""

    opset: int
    #: Whether the program quantizes something with one scale for each slice along an axis.
    quantizes_per_channel: bool
    #: The nodes of the subgraph that is being written, or of the whole graph.
    nodes: list[ir.Node]
    #: The values of the sizes, and of what is computed from them, whose nodes have been written.
    known_numbers: dict[Expression, Value]
    #: The sizes that are not 0 where the nodes run that are being written: operators before them run with no other.
    occupied: frozenset[Expression]

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
    def accumulating(self, x: Value) -> Value: ...
    @abstractmethod
    def scalar(self, number: Number, dtype: torch.dtype) -> Value: ...
    @abstractmethod
    def new_name(self, stem: str) -> str: ...
    @abstractmethod
    def emit(
        self, op_type: str, operands: Sequence[Value | None], dtypes: Sequence[torch.dtype], **attributes: Any
    ) -> list[Value]: ...
    @abstractmethod
    def add_node(
        self,
        domain: str,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        dtypes: Sequence[torch.dtype],
    ) -> list[Value]: ...
    @abstractmethod
    def body(self) -> AbstractContextManager[Body]: ...
    @abstractmethod
    def lowered(self, block: Block, inputs: Sequence[Value], outputs: Sequence[AtenValue]) -> list[Value]: ...
    @abstractmethod
    def has_kernel(self, op: str, dtype: torch.dtype, type_name: str = "T") -> bool: ...
    @abstractmethod
    def symbol(self, name: str) -> SymbolSource[Value]: ...

    def note_occupied(self, sizes: Sequence[Size]) -> None:
        """Note that what follows runs only where none of these sizes is 0."""
        self.occupied |= {size.node.expr for size in sizes if not isinstance(size, int)}

    def may_be_empty(self, sizes: Sequence[Size]) -> bool:
        """Whether one of the sizes may be 0 where the nodes run that are being written."""
        unsure = filter(may_be_empty, sizes)
        return any(isinstance(size, int) or size.node.shape_env.least(size, self.occupied) == 0 for size in unsure)

    def require_opset(self, since: int, reason: str) -> None:
        """Refuse the operator that is being lowered if the target opset is before `since`, the first that has it."""
        if self.opset < since:
            raise Unsupported(reason, since)

    # Methods of one module that other modules use.
    @abstractmethod
    def size(self, x: Value, axis: int) -> Value: ...
    @abstractmethod
    def squeeze(self, x: Value, axes: Sequence[int]) -> Value: ...
    @abstractmethod
    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value: ...
    @abstractmethod
    def transpose(self, x: Value, permutation: Sequence[int]) -> Value: ...
    @abstractmethod
    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value: ...
    @abstractmethod
    def integer(self, expression: Expression) -> Value: ...
    @abstractmethod
    def rounded(self, expression: Expression) -> Value | None: ...
    @abstractmethod
    def elementary(self, name: str, x: Value) -> Value: ...
    @abstractmethod
    def truth(self, statement: Expression) -> Value: ...
    @abstractmethod
    def real(self, expression: Expression) -> Value: ...
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
        steps: Sequence[Size] | None = None,
    ) -> Value: ...
    @abstractmethod
    def less(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def not_equal(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def floor_divide(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def remainder(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def bitwise(self, how: Literal["And", "Or", "Xor"], a: Value, b: Value) -> Value: ...
    @abstractmethod
    def extreme(self, which: Literal["Max", "Min"], a: Value, b: Value) -> Value: ...
    @abstractmethod
    def extreme_over(
        self, which: Literal["Max", "Min"], x: Value, axes: Sequence[int] | None, keepdim: bool
    ) -> Value: ...
    @abstractmethod
    def reduce(self, how: Any, x: Value, axes: Sequence[int] | None, keepdim: bool) -> Value: ...
    @abstractmethod
    def pad(
        self, x: Value, before: Sequence[Size], after: Sequence[Size], mode: Any = "constant", value: Number = 0
    ) -> Value: ...
    @abstractmethod
    def is_nan(self, x: Value) -> Value: ...
    @abstractmethod
    def where(self, condition: Value, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def greater(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def equal(self, a: Value, b: Value) -> Value: ...
    @abstractmethod
    def clip(self, x: Value, low: Number | None, high: Number | None) -> Value: ...
    @abstractmethod
    def sign(self, x: Value) -> Value: ...
    @abstractmethod
    def expand(self, x: Value, sizes: Sequence[Size]) -> Value: ...
    @abstractmethod
    def identity(self, value: Value) -> Value: ...
    @abstractmethod
    def check_returned(self, values: Sequence[AtenValue]) -> None: ...
    @abstractmethod
    def repeat_while(
        self, times: Size | Value, initial: Sequence[Value], step: Callable[[Value, list[Value]], Sequence[Value]]
    ) -> list[Value]: ...
    @abstractmethod
    def iota(self, size: Size, dtype: torch.dtype = ...) -> Value: ...
    @abstractmethod
    def iota_below(self, size: Value, dtype: torch.dtype = ...) -> Value: ...
    @abstractmethod
    def along(self, size: Size, axis: int, rank: int) -> Value: ...
    @abstractmethod
    def cumulative_count(self, flags: Value, size: Size) -> Value: ...
