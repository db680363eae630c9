"""Sequences and optionals of ONNX: values that hold tensors, from the opset that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.capture.graph.graph import Holds
from onnx_parity.exporter.capture.graph.graph import Value as AtenValue
from onnx_parity.exporter.dtypes import type_of
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.schema.signatures import signature
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["ListForms"]

#: The opsets from which a branch or a loop returns them, and Identity hands them on.
_CARRIED_SINCE = {Holds.TENSOR: 1, Holds.LIST: 13, Holds.OPTIONAL: 16}
_HANDED_ON_SINCE = {Holds.TENSOR: 1, Holds.LIST: 14, Holds.OPTIONAL: 16}
_SAID = {Holds.LIST: "sequences", Holds.OPTIONAL: "optionals"}


#: Of their constraints of types, at every opset.
HOLDS_NO_BFLOAT16 = "ONNX's sequences and optionals hold no torch.bfloat16: cast what they hold to torch.float32"


class ListForms(Base):
    """What is done to sequences and optionals."""

    def held(
        self, op: str, operands: Sequence[Value | None], dtype: torch.dtype, holds: Holds, **attributes: Any
    ) -> Value:
        """An operator that takes or gives what holds tensors, of one dtype."""
        signature(op, self.opset)
        if torch.bfloat16 in (dtype, *(operand.dtype for operand in operands if operand is not None)):
            raise Unsupported(HOLDS_NO_BFLOAT16)
        (result,) = self._emit("", op, operands, attributes, [dtype])
        result.ir.type = type_of(dtype, holds)
        return result

    def check_carried(self, values: Sequence[AtenValue]) -> None:
        """Refuse what branches and loops return from a later opset on."""
        for value in values:
            since = _CARRIED_SINCE[value.holds]
            if self.opset < since:
                raise Unsupported(
                    f"ONNX's branches and loops return {_SAID[value.holds]} only from opset {since}", since
                )

    def handed_on(self, value: Value) -> Value:
        """The same value under another name."""
        holds = value.holds
        since = _HANDED_ON_SINCE[holds]
        if self.opset < since:
            raise Unsupported(f"ONNX's Identity takes {_SAID[holds]} only from opset {since}", since)
        result = self.op("Identity", value)
        result.ir.type = value.ir.type
        return result

    def list_item(self, items: Value, place: Value) -> Value:
        return self.held("SequenceAt", [items, place], items.dtype, Holds.TENSOR)

    def list_of(self, items: Sequence[Value]) -> Value:
        return self.held("SequenceConstruct", items, items[0].dtype, Holds.LIST)

    def list_insert(self, items: Value, item: Value, place: Value | None = None) -> Value:
        operands = [items, item, place] if place is not None else [items, item]
        return self.held("SequenceInsert", operands, items.dtype, Holds.LIST)

    def list_joined(self, items: Value, axis: int, *, new_axis: bool = False) -> Value:
        attributes = {"axis_i": axis, "new_axis_i": 1} if new_axis else {"axis_i": axis}
        return self.held("ConcatFromSequence", [items], items.dtype, Holds.TENSOR, **attributes)
