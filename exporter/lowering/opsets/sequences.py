"""Sequences and optionals of ONNX, and the opsets in which control flow and Identity return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.dtypes import type_of
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.graph.graph import Holds
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.schema.signatures import signature
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["SequenceForms"]

#: The first opsets whose If and Loop return sequences and optionals, and whose Identity accepts them.
_RETURNED_SINCE = {Holds.LIST: 13, Holds.LIST_OF_ANY_RANK: 13, Holds.OPTIONAL: 16}
_IDENTITY_SINCE = {Holds.LIST: 14, Holds.OPTIONAL: 16}
_PLURAL = {Holds.LIST: "sequences", Holds.LIST_OF_ANY_RANK: "sequences", Holds.OPTIONAL: "optionals"}

#: The type constraints of the operators lack bfloat16 at every opset.
NO_BFLOAT16 = "ONNX has no sequences and optionals of torch.bfloat16: cast the tensors in them to torch.float32"


class SequenceForms(Base):
    """Operators on sequences and optionals."""

    def sequence_op(
        self, op: str, operands: Sequence[Value | None], dtype: torch.dtype, holds: Holds, **attributes: Any
    ) -> Value:
        """An operator that takes or returns sequences or optionals of one dtype."""
        signature(op, self.opset)
        if torch.bfloat16 in (dtype, *(operand.dtype for operand in operands if operand is not None)):
            raise Unsupported(NO_BFLOAT16)
        (result,) = self.add_node("", op, operands, attributes, [dtype])
        result.ir.type = type_of(dtype, holds)
        return result

    def check_returned(self, values: Sequence[AtenValue]) -> None:
        """Refuse values that If and Loop return only from a later opset on."""
        for value in values:
            if value.holds in _RETURNED_SINCE:
                self.require_opset(
                    _RETURNED_SINCE[value.holds],
                    f"ONNX's If and Loop do not return {_PLURAL[value.holds]} at this opset",
                )

    def identity(self, value: Value) -> Value:
        """The same value under another name."""
        holds = value.holds
        if holds is not Holds.TENSOR:
            self.require_opset(_IDENTITY_SINCE[holds], f"ONNX's Identity does not take {_PLURAL[holds]} at this opset")
        result = self.op("Identity", value)
        result.ir.type = value.ir.type
        return result

    def list_item(self, items: Value, place: Value) -> Value:
        return self.sequence_op("SequenceAt", [items, place], items.dtype, Holds.TENSOR)

    def list_of(self, items: Sequence[Value]) -> Value:
        return self.sequence_op("SequenceConstruct", items, items[0].dtype, Holds.LIST)

    def list_insert(self, items: Value, item: Value, place: Value | None = None) -> Value:
        operands = [items, item, place] if place is not None else [items, item]
        return self.sequence_op("SequenceInsert", operands, items.dtype, Holds.LIST)

    def list_joined(self, items: Value, axis: int, *, new_axis: bool = False) -> Value:
        attributes = {"axis_i": axis, "new_axis_i": 1} if new_axis else {"axis_i": axis}
        return self.sequence_op("ConcatFromSequence", [items], items.dtype, Holds.TENSOR, **attributes)
