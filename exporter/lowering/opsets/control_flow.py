"""If, Loop and Scan, whose versions differ in what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnx_parity.exporter.graph.graph import Block, Size
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import same_shape, shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["ControlFlowForms", "Step"]

#: Writes the body of a Loop. Takes the number of the iteration, the condition and the carried values; returns the
#: condition and the carried values of the next iteration, and the values that the Loop stacks.
_WriteBody = Callable[[Value, Value, list[Value]], Sequence[Value]]
#: The same without the condition.
Step = Callable[[Value, list[Value]], Sequence[Value]]


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

    def squeeze_if_one(self, x: Value, size: Value, axis: int) -> Value:
        """`x` without an axis if its size, an int64 tensor of one element, is 1."""
        self.require_opset(
            11,
            f"the number of axes of its result depends on whether axis {axis} has size 1, and ONNX's If does not "
            "return different shapes at this opset",
        )
        graphs = []
        for drops in (True, False):
            with self.body() as body:
                body.returns([self.squeeze(x, [axis]) if drops else self.identity(x)])
            graphs.append(body.graph)
        is_one = self.squeeze(self.equal(size, self.const([1], torch.int64)), [0])
        (result,) = self.emit("If", [is_one], [x.dtype], then_branch_g=graphs[0], else_branch_g=graphs[1])
        return result

    def loop(self, trips: Value | None, condition: Value | None, initial: Sequence[Value], block: Block) -> list[Value]:
        """A Loop whose body is a block that takes the number of the iteration, the condition and the carried values."""

        def write(number: Value, going: Value, carried: list[Value]) -> Sequence[Value]:
            return self.lowered(block, [number, going, *carried], block.outputs)

        self.check_returned(block.outputs)
        return self._loop(trips, condition, initial, block.inputs[2:], write)

    def repeat(self, times: Size | Value, initial: Sequence[Value], step: Step) -> list[Value]:
        """A Loop of so many iterations over values that keep their dtypes and shapes.

        `step` takes the number of the iteration and the values, and returns the next values, and after them those that
        the Loop stacks along a new first axis.
        """
        return self.repeat_while(times, initial, lambda number, carried: [self.const(True), *step(number, carried)])

    def repeat_while(self, times: Size | Value, initial: Sequence[Value], step: Step) -> list[Value]:
        """A Loop of at most so many iterations. What `step` returns first is whether another iteration follows.

        If the number of iterations is known only at run time, a value, nothing is stacked.
        """
        stacked: list[Value] = []

        def write(number: Value, going: Value, carried: list[Value]) -> Sequence[Value]:
            made = step(number, carried)
            stacked.extend(made[1 + len(initial) :])
            return made

        if isinstance(times, int) and times == 0:
            with self.body():
                write(self.const(0), self.const(True), list(initial))  # To learn what would have been stacked.
            return [*initial, *(self.full((0, *value.sizes), 0, value.dtype) for value in stacked)]
        trips = times if isinstance(times, Value) else self.scalar(times, torch.int64)
        results = self._loop(trips, None, initial, initial, write)
        last, stacks = results[: len(initial)], results[len(initial) :]
        if not isinstance(times, int | Value):
            # Of a Loop without iterations onnxruntime makes every dynamic size of what is stacked 0.
            stacks = [
                self._as_stacked(stack, (times, *value.sizes)) for stack, value in zip(stacks, stacked, strict=True)
            ]
        shapes = [value.sizes for value in initial]
        if not isinstance(times, Value):
            shapes += [(times, *value.sizes) for value in stacked]
        return [shaped(result, shape) for result, shape in zip([*last, *stacks], shapes, strict=True)]

    def _as_stacked(self, stack: Value, sizes: Sequence[Size]) -> Value:
        if all(isinstance(size, int) for size in sizes[1:]):
            return stack
        if self.opset >= 14:
            return self.op("Reshape", stack, self.ints(sizes), allowzero_i=1)
        return self.op("Reshape", stack, self.ints(sizes))  # A 0 copies the size of the stack, which is 0 too.

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
        return self._loop(trips, None, initial, block.inputs[: len(initial)], write)

    def _loop(
        self,
        trips: Value | None,
        condition: Value | None,
        initial: Sequence[Value],
        inside: Sequence[AtenValue | Value],
        write: _WriteBody,
    ) -> list[Value]:
        # Before opset 11 a Loop must have a carried value.
        idle = [self.const(True)] if self.opset < 11 and not initial else []
        with self.body() as body:
            number, going = body.input("iteration", torch.int64, ()), body.input("going", torch.bool, ())
            unused = [body.input("idle", torch.bool, ()) for _ in idle]
            carried = [body.input("carried", value.dtype, value.shape or (), value.holds) for value in inside]
            goes_on, *rest = write(number, going, carried)
            body.returns([goes_on, *unused, *rest])
        dtypes = [value.dtype for value in (*idle, *rest)]
        if condition is None:
            condition = self.const(True)  # It is optional in ONNX, but onnx.reference takes a missing one for false.
        return self.emit("Loop", [trips, condition, *idle, *initial], dtypes, body_g=body.graph)[len(idle) :]
