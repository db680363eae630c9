"""The interpreter of the recorded ATen graph: computes its nodes on real tensors, including branches and loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch

from onnx_parity.exporter.dispatch.composites import without_keeping
from onnx_parity.exporter.graph.block_primitives import IF, LOOP, SCAN
from onnx_parity.exporter.graph.graph import Block, Node, Primitive, Size, Value, Varying
from onnx_parity.exporter.graph.list_primitives import ON_VALUES
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.modes import outside_of_modes, outside_of_transforms, without_function_overrides
from onnx_parity.exporter.torch_inside.pytree import tree_map_only

__all__ = ["Interpreter", "TensorInterpreter", "call", "nodes_behind", "outside_of_recording"]

#: The data that an interpreter keeps for a value: its tensor, and possibly more.
T = TypeVar("T")
_VIEWS = frozenset({torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.reshape.default})


class Interpreter(ABC, Generic[T]):
    """Runs nodes. A scope maps each value of a block, and of the blocks around it, to the data that is kept for it.

    Branches, loops and scans are implemented here; subclasses implement operators.
    """

    def run(self, nodes: Sequence[Node], scope: MutableMapping[Value, T]) -> None:
        """Run nodes in order, and put their outputs into the scope."""
        for node in nodes:
            self.step(node, scope)

    def step(self, node: Node, scope: MutableMapping[Value, T]) -> None:
        """Run one node, and put its outputs into the scope."""
        if not isinstance(node.op, Primitive):
            scope.update(self.operator(node, scope))
            return
        for output, result in zip(node.outputs, self.primitive(node, scope), strict=True):
            assert output is not None
            scope[output] = result

    # --- implemented by subclasses ------------------------------------------------------------------------------------

    @abstractmethod
    def operator(self, node: Node, scope: MutableMapping[Value, T]) -> Iterable[tuple[Value, T]]:
        """The results of an operator of torch, by the outputs of the node."""

    @abstractmethod
    def list_operation(self, node: Node, scope: MutableMapping[Value, T]) -> Sequence[T]:
        """The results of a primitive without blocks, which is an operation on a list or on an optional."""

    @abstractmethod
    def literal(self, tensor: torch.Tensor) -> T:
        """The data for a tensor that no node computes, such as a weight or the number of an iteration."""

    @abstractmethod
    def tensor(self, known: T) -> torch.Tensor:
        """The tensor in the data that is kept for a value."""

    @abstractmethod
    def size(self, size: Size, scope: MutableMapping[Value, T]) -> int:
        """A static or symbolic size as a number."""

    @abstractmethod
    def slice_of(self, node: Node, whole: T, number: int, turn: str) -> T:
        """The slice of a scanned tensor for one iteration."""

    @abstractmethod
    def stack(self, node: Node, items: list[T]) -> T:
        """The collected items of a loop or scan, of which there is at least one, stacked along a new first axis."""

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, value: Value, scope: Mapping[Value, T]) -> T:
        return scope[value] if value.constant is None else self.literal(value.constant)

    def decision(self, value: Value, scope: MutableMapping[Value, T]) -> torch.Tensor:
        """A value that decides which branch is taken, or how often a loop runs."""
        return self.tensor(self.value(value, scope))

    def goes_on(self, condition: Value, known: T) -> bool:
        """Whether a loop continues after an iteration, according to the first output of its block."""
        return bool(self.tensor(known))

    # --- branches and loops -------------------------------------------------------------------------------------------

    def primitive(self, node: Node, scope: MutableMapping[Value, T]) -> Sequence[T]:
        if node.op == IF:
            return self._branch(node, scope)
        if node.op == LOOP:
            return self._loop(node, scope)
        if node.op == SCAN:
            return self._scan(node, scope)
        return self.list_operation(node, scope)

    def block(
        self, node: Node, block: Block, inputs: Sequence[T], scope: MutableMapping[Value, T], turn: str
    ) -> list[T]:
        """Run a block of a node. `turn` describes for messages which block or which iteration it is."""
        inside = ChainMap(dict(zip(block.inputs, inputs, strict=True)), scope)
        self.run(block.nodes, inside)
        return [self.value(value, inside) for value in block.outputs]

    def _branch(self, node: Node, scope: MutableMapping[Value, T]) -> list[T]:
        if self.decision(node.arguments["condition"], scope):
            return self.block(node, node.arguments["then"], (), scope, "true branch")
        return self.block(node, node.arguments["orelse"], (), scope, "false branch")

    def _loop(self, node: Node, scope: MutableMapping[Value, T]) -> list[T]:
        block: Block = node.arguments["block"]
        state = [self.value(value, scope) for value in node.arguments["initial"]]
        trips, condition = node.arguments["trips"], node.arguments["condition"]
        limit = None if trips is None else int(self.decision(trips, scope))
        going = True if condition is None else bool(self.decision(condition, scope))
        collected: list[list[T]] = [[] for _ in block.outputs[1 + len(state) :]]
        number = 0
        while going and (limit is None or number < limit):
            inputs = [self.literal(torch.tensor(number)), self.literal(torch.tensor(True)), *state]
            goes_on, *rest = self.block(node, block, inputs, scope, f"iteration {number + 1} of the loop")
            going = self.goes_on(block.outputs[0], goes_on)
            state = rest[: len(state)]
            for items, item in zip(collected, rest[len(state) :], strict=True):
                items.append(item)
            number += 1
        return [*state, *self._stacked(node, collected, node.outputs[len(state) :], scope)]

    def _scan(self, node: Node, scope: MutableMapping[Value, T]) -> list[T]:
        block: Block = node.arguments["block"]
        state = [self.value(value, scope) for value in node.arguments["initial"]]
        over = [self.value(value, scope) for value in node.arguments["over"]]
        collected: list[list[T]] = [[] for _ in block.outputs[len(state) :]]
        for number in range(self.tensor(over[0]).shape[0]):
            turn = f"iteration {number + 1} of the scan"
            slices = [self.slice_of(node, whole, number, turn) for whole in over]
            given = self.block(node, block, [*state, *slices], scope, turn)
            state = given[: len(state)]
            for items, item in zip(collected, given[len(state) :], strict=True):
                items.append(item)
        return [*state, *self._stacked(node, collected, node.outputs[len(state) :], scope)]

    def _stacked(
        self,
        node: Node,
        collected: Sequence[list[T]],
        outputs: Sequence[Value | None],
        scope: MutableMapping[Value, T],
    ) -> Iterator[T]:
        for items, output in zip(collected, outputs, strict=True):
            if items:
                yield self.stack(node, items)
            else:
                assert output is not None
                sizes = [self.size(size, scope) for size in output.shape[1:]]
                yield self.literal(torch.zeros([0, *sizes], dtype=output.dtype))


class TensorInterpreter(Interpreter[Any]):
    """Interprets on tensors, Python lists and None. `number` returns the value of a symbolic number in a scope."""

    def __init__(self, number: Callable[[Varying, Mapping[Value, Any]], bool | int | float]) -> None:
        self._number = number

    def operator(self, node: Node, scope: MutableMapping[Value, Any]) -> Iterable[tuple[Value, Any]]:
        arguments = self._arguments(node, scope)
        if node.op in _VIEWS and node.outputs[0] is not None:
            # The recorded sizes are used, since a -1 in the arguments is ambiguous for a tensor without elements.
            arguments["size"] = [self.size(size, scope) for size in node.outputs[0].shape]
        return call(node, arguments)

    def list_operation(self, node: Node, scope: MutableMapping[Value, Any]) -> Sequence[Any]:
        assert isinstance(node.op, Primitive)
        given = ON_VALUES[node.op.name](**self._arguments(node, scope))
        return given if isinstance(given, tuple) else (given,)

    def literal(self, tensor: torch.Tensor) -> Any:
        return tensor

    def tensor(self, known: Any) -> torch.Tensor:
        tensor: torch.Tensor = known
        return tensor

    def size(self, size: Size, scope: MutableMapping[Value, Any]) -> int:
        return size if isinstance(size, int) else int(self._number(size, scope))

    def slice_of(self, node: Node, whole: Any, number: int, turn: str) -> Any:
        return whole[number]

    def stack(self, node: Node, items: list[Any]) -> Any:
        return torch.stack(items)

    def _arguments(self, node: Node, scope: Mapping[Value, Any]) -> dict[str, Any]:
        return {name: self._real(argument, scope) for name, argument in node.arguments.items()}

    def _real(self, argument: Any, scope: Mapping[Value, Any]) -> Any:
        if isinstance(argument, Value):
            return self.value(argument, scope)
        if isinstance(argument, (list, tuple)):
            return [self._real(item, scope) for item in argument]
        if isinstance(argument, Varying):
            return self._number(argument, scope)
        return argument


def nodes_behind(value: Value, known: Mapping[Value, Any]) -> list[Node]:
    """The nodes that compute a value from the known values, in order."""
    done: dict[int, Node] = {}

    def is_missing(node: Node | None) -> bool:
        return node is not None and id(node) not in done and not any(output in known for output in node.outputs)

    pending = [value.node]
    while pending:
        node = pending.pop()
        if node is None or not is_missing(node):
            continue
        missing = [item.node for item in node.inputs() if is_missing(item.node)]
        if missing:
            pending += [node, *missing]
        else:
            done[id(node)] = node
    return list(done.values())


def call(node: Node, arguments: Mapping[str, Any]) -> Iterator[tuple[Value, Any]]:
    """Call a node's operator with real arguments. Returns the results by the outputs of the node."""
    assert isinstance(node.op, OpOverload)
    try:
        result = node.op(**arguments)
    except RuntimeError:
        # A kernel may return other strides than its fake kernel did, and then a recorded view may fail.
        if not any(map(_is_strided, arguments.values())):
            raise
        result = node.op(**tree_map_only(torch.Tensor, torch.Tensor.contiguous, dict(arguments)))
    results = result if isinstance(result, (list, tuple)) else (result,)
    for output, tensor in zip(node.outputs, results, strict=True):
        if output is not None:
            yield output, tensor


def _is_strided(argument: object) -> bool:
    return isinstance(argument, torch.Tensor) and not argument.is_contiguous()


@contextmanager
def outside_of_recording() -> Iterator[None]:
    """A context in which operators are computed and not recorded.

    It is also needed when the program itself reads a value outside of any operator (`if x.nonzero().shape[0] > 4:`).
    """
    # `Lifting` is a mode of torch functions, and would take what is computed here for tensors of the program.
    with without_function_overrides(), outside_of_modes(), outside_of_transforms(), without_keeping():
        yield
