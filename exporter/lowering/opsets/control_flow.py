"""If, Loop and Scan, whose versions differ in what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnx_parity.exporter.capture.graph.graph import Block, Size
from onnx_parity.exporter.capture.graph.graph import Value as AtenValue
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import same_shape
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["ControlFlowForms"]

#: Writes the body of a Loop. Takes the number of the iteration, the condition and the carried values; returns the
#: condition and the carried values of the next iteration, and the values that the Loop stacks.
_WriteBody = Callable[[Value, Value, list[Value]], Sequence[Value]]


class ControlFlowForms(Base):
    """Loops and scans, and checks of the results of branches."""

    def check_branches(self, shapes: Sequence[tuple[Sequence[Size], Sequence[Size]]]) -> None:
        """Before opset 11 the branches of an If must return the same shapes."""
        if self.opset < 11:
            for one, other in shapes:
                if not same_shape(one, other):
                    self.require_opset(
                        11,
                        f"its branches return different shapes, {list(one)} and {list(other)}, which ONNX's If does "
                        "not allow at this opset",
                    )

    def loop(self, trips: Value | None, condition: Value | None, initial: Sequence[Value], block: Block) -> list[Value]:
        """A Loop whose body is a block that takes the number of the iteration, the condition and the carried values."""

        def write(number: Value, going: Value, carried: list[Value]) -> Sequence[Value]:
            return self.lowered(block, [number, going, *carried], block.outputs)

        self.check_returned(block.outputs)
        return self._loop(
            trips, condition, initial, block.inputs[2:], [value.dtype for value in block.outputs[1:]], write
        )

    def scan(self, initial: Sequence[Value], over: Sequence[Value], block: Block) -> list[Value]:
        """A scan over the first axis of tensors.

        It is a Loop that gathers the slices before opset 9, or if the axis may be empty, for which onnxruntime's Scan
        fails.
        """
        dtypes = [value.dtype for value in block.outputs]
        length = over[0].sizes[0]
        if self.opset >= 9 and (length > 0 if isinstance(length, int) else length.node.expr.is_Symbol):
            with self.body() as body:
                stems = ["carried"] * len(initial) + ["slice"] * len(over)
                ends = zip(stems, block.inputs, strict=True)
                inputs = [body.input(stem, value.dtype, value.shape) for stem, value in ends]
                body.returns(self.lowered(block, inputs, block.outputs))
            return self.emit("Scan", [*initial, *over], dtypes, body_g=body.graph, num_scan_inputs_i=len(over))

        def write(number: Value, going: Value, carried: list[Value]) -> Sequence[Value]:
            slices = [self.op("Gather", whole, number, axis_i=0) for whole in over]
            return [going, *self.lowered(block, [*carried, *slices], block.outputs)]

        trips = self.squeeze(self.size(over[0], 0), [0])
        return self._loop(trips, None, initial, block.inputs[: len(initial)], dtypes, write)

    def _loop(
        self,
        trips: Value | None,
        condition: Value | None,
        initial: Sequence[Value],
        inside: Sequence[AtenValue],
        dtypes: Sequence[torch.dtype],
        write: _WriteBody,
    ) -> list[Value]:
        # Before opset 11 a Loop must have a carried value.
        idle = [self.const(True)] if self.opset < 11 and not initial else []
        with self.body() as body:
            number, going = body.input("iteration", torch.int64, ()), body.input("going", torch.bool, ())
            unused = [body.input("idle", torch.bool, ()) for _ in idle]
            carried = [body.input("carried", value.dtype, value.shape, value.holds) for value in inside]
            goes_on, *rest = write(number, going, carried)
            body.returns([goes_on, *unused, *rest])
        all_dtypes = [*(value.dtype for value in idle), *dtypes]
        if condition is None:
            condition = self.const(True)  # It is optional in ONNX, but onnx.reference takes a missing one for false.
        return self.emit("Loop", [trips, condition, *idle, *initial], all_dtypes, body_g=body.graph)[len(idle) :]
