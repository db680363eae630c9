"""The operators that a program runs for given inputs, with its branches decided and its loops unrolled.

Localisation does not read the ONNX graph. It records the program with this exporter and unrolls the recording for the
inputs on which the cell fails: torch decides the branches and counts the iterations. Values are dropped as soon as no
later operator needs them.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.block_primitives import IF, LOOP, SCAN
from onnx_parity.exporter.graph.graph import (
    Block,
    Graph,
    Holds,
    Node,
    Origin,
    Primitive,
    Size,
    SymbolSource,
    Value,
    Varying,
    operator_name,
)
from onnx_parity.exporter.graph.list_primitives import TO_LIST
from onnx_parity.exporter.recording.evaluate import Interpreter
from onnx_parity.exporter.tracing.symbolic_number import SymbolicNumber
from onnx_parity.harness.localisation.pieces import Recording, needs, run

__all__ = ["unroll"]


class _Unrolled(NamedTuple):
    """The counterpart of a value of the graph: the value in the unrolled program (in one iteration), and its tensor."""

    value: Value
    tensor: torch.Tensor


#: The counterparts of the values of a block and of the blocks around it.
_Scope = MutableMapping[Value, _Unrolled]

_NAMES = {IF: "the branch", LOOP: "the loop", SCAN: "the scan"}


@torch.no_grad()
def unroll(graph: Graph, inputs: Sequence[torch.Tensor]) -> Recording:
    """The operators that a program runs for these inputs, without those that neither outputs nor decisions need."""
    unrolling = _Unrolling(graph)
    starts = [item.value for item in graph.inputs]
    scope = {value: _Unrolled(value, tensor) for value, tensor in zip(starts, inputs, strict=True)}
    found = unrolling.through(Block([], graph.live_nodes(), graph.outputs), scope, scope)
    items = [
        unrolling.items(value, each) if value.holds is Holds.LIST else [each]
        for value, each in zip(graph.outputs, found, strict=True)
    ]
    outputs = tuple(each.value for each in itertools.chain(*items))
    nodes = _live(unrolling.nodes, {*outputs, *unrolling.decisions})
    read = {value for node in nodes for value in needs(node)}
    given = {value: tensor for value, tensor in unrolling.given.items() if value in read}
    decisions, blocks = tuple(unrolling.decisions), tuple(unrolling.blocks)
    return Recording(tuple(starts), given, tuple(nodes), outputs, decisions, unrolling.within, blocks)


class _Unrolling(Interpreter[_Unrolled]):
    """Runs a graph, and records a copy of each operator each time that it runs."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.nodes: list[Node] = []
        #: The values that decide which branches are taken, and how often loops run.
        self.decisions: list[Value] = []
        #: Values that are neither inputs nor computed by a node: the numbers of iterations.
        self.given: dict[Value, torch.Tensor] = {}
        #: For nodes in a branch or a loop, a description of the branch or iteration.
        self.within: dict[Node, str] = {}
        #: The branches and loops that were run, as a set that keeps its order.
        self.blocks: dict[str, None] = {}
        self._plans: dict[Block, list[tuple[Node, list[Value]]]] = {}
        #: The branch or iteration that is running, and those around it.
        self._turn = ""

    # --- blocks -------------------------------------------------------------------------------------------------------

    def through(self, block: Block, own: dict[Value, _Unrolled], scope: _Scope) -> list[_Unrolled]:
        """Run a block whose inputs are in its `own` part of the scope, and return its outputs."""
        for node, spent in self._plan(block):
            self.step(node, scope)
            for value in spent:
                # Values of an outer block are dropped by the outer block.
                own.pop(value, None)
        return [self.value(output, scope) for output in block.outputs]

    def block(self, node: Node, block: Block, inputs: Sequence[_Unrolled], scope: _Scope, turn: str) -> list[_Unrolled]:
        own = dict(zip(block.inputs, inputs, strict=True))
        around, self._turn = self._turn, self._inside(node, turn)
        given = self.through(block, own, ChainMap(own, scope))
        self._turn = around
        return given

    def _inside(self, node: Node, turn: str) -> str:
        inner = f"{turn}{node.origin.placed}"
        return f"{inner}, {self._turn}" if self._turn else inner

    def _plan(self, block: Block) -> list[tuple[Node, list[Value]]]:
        """The nodes of a block that are needed, each with the values that no later node needs."""
        if block not in self._plans:
            nodes = self._graph.live_in(block.nodes, block.outputs)
            last = {value: place for place, node in enumerate(nodes) for value in self._list_touched(node)}
            spent: list[list[Value]] = [[] for _ in nodes]
            for value, place in last.items():
                if value not in block.outputs:
                    spent[place].append(value)
            self._plans[block] = list(zip(nodes, spent, strict=True))
        return self._plans[block]

    def _list_touched(self, node: Node) -> Iterator[Value]:
        yield from (output for output in node.outputs if output is not None)
        yield from node.inputs()
        sources = self._graph.symbol_sources
        for size in node.sizes():
            if not isinstance(size, int):
                names = map(str, size.node.expr.free_symbols)
                # Sizes of results may consist of symbols that cannot be read from a value and are not needed.
                yield from (sources[name].value for name in names if name in sources)

    def primitive(self, node: Node, scope: _Scope) -> Sequence[_Unrolled]:
        assert isinstance(node.op, Primitive)
        if node.op in _NAMES:
            self.blocks[f"{_NAMES[node.op]}{node.origin.placed}"] = None
        return super().primitive(node, scope)

    def decision(self, value: Value, scope: _Scope) -> torch.Tensor:
        known = self.value(value, scope)
        if value.constant is None:
            self.decisions.append(known.value)
        return known.tensor

    def goes_on(self, condition: Value, known: _Unrolled) -> bool:
        if condition.constant is None and known.value not in self.given:
            self.decisions.append(known.value)
        return bool(known.tensor)

    # --- operators ----------------------------------------------------------------------------------------------------

    def operator(self, node: Node, scope: _Scope) -> Iterator[tuple[Value, _Unrolled]]:
        tensors: dict[Value, torch.Tensor] = {}

        def here(argument: Any) -> Any:
            if isinstance(argument, Value):
                known = self.value(argument, scope)
                tensors[known.value] = known.tensor
                return known.value
            if isinstance(argument, (list, tuple)):
                return [here(item) for item in argument]
            if isinstance(argument, Varying):
                sources = [
                    (each, source._replace(value=here(source.value))) for each, source in self._sources(argument)
                ]
                return SymbolicNumber(argument.node.expr, tuple(sources))
            return argument

        arguments = {name: here(argument) for name, argument in node.arguments.items()}
        outputs = [None if each is None else Value(each.dtype, each.shape, name=each.name) for each in node.outputs]
        made = self._add(Node(node.op, arguments, node.origin, outputs), tensors, self._turn)
        for recorded, output in zip(node.outputs, outputs, strict=True):
            if recorded is not None and output is not None:
                yield recorded, _Unrolled(output, made[output])

    def list_operation(self, node: Node, scope: _Scope) -> Sequence[_Unrolled]:
        if node.op == TO_LIST:
            # Until the program returns it, a list is represented by the tensor of its stacked items.
            return [self.value(node.arguments["stack"], scope)]
        raise CaptureError(
            f"{operator_name(node.op)}{node.origin.placed} uses a list of tensors of different sizes, or an optional: "
            "only programs of tensors can be unrolled"
        )

    def items(self, listed: Value, stack: _Unrolled) -> list[_Unrolled]:
        """The items of a list that the program returns, selected from the tensor of its stacked items."""
        assert listed.node is not None
        return [self._select(listed.node.origin, stack, number, "") for number in range(stack.tensor.shape[0])]

    def slice_of(self, node: Node, whole: _Unrolled, number: int, turn: str) -> _Unrolled:
        return self._select(node.origin, whole, number, self._inside(node, turn))

    def stack(self, node: Node, items: list[_Unrolled]) -> _Unrolled:
        return self._compute(torch.ops.aten.stack.default, node.origin, self._turn, {"tensors": items, "dim": 0})

    def _select(self, origin: Origin, whole: _Unrolled, number: int, turn: str) -> _Unrolled:
        arguments = {"self": whole, "dim": 0, "index": number}
        return self._compute(torch.ops.aten.select.int, origin, turn, arguments)

    def _compute(self, op: Any, origin: Origin, turn: str, arguments: dict[str, Any]) -> _Unrolled:
        """Run an operator that is not in the graph, but that a loop applies implicitly."""
        tensors: dict[Value, torch.Tensor] = {}

        def here(argument: Any) -> Any:
            if isinstance(argument, _Unrolled):
                tensors[argument.value] = argument.tensor
                return argument.value
            return [here(item) for item in argument] if isinstance(argument, list) else argument

        output = Value(torch.float32, ())
        node = Node(op, {name: here(argument) for name, argument in arguments.items()}, origin, [output])
        tensor = self._add(node, tensors, turn)[output]
        output.dtype, output.shape = tensor.dtype, tuple(tensor.shape)
        return _Unrolled(output, tensor)

    def _add(self, node: Node, tensors: Mapping[Value, torch.Tensor], turn: str) -> dict[Value, torch.Tensor]:
        self.nodes.append(node)
        if turn:
            self.within[node] = turn
        return dict(run(node, tensors))

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, value: Value, scope: Mapping[Value, _Unrolled]) -> _Unrolled:
        # A weight is its own counterpart.
        return scope[value] if value.constant is None else _Unrolled(value, value.constant)

    def literal(self, tensor: torch.Tensor) -> _Unrolled:
        value = Value(tensor.dtype, tuple(tensor.shape))
        self.given[value] = tensor
        return _Unrolled(value, tensor)

    def tensor(self, known: _Unrolled) -> torch.Tensor:
        return known.tensor

    def size(self, size: Size, scope: _Scope) -> int:
        if isinstance(size, int):
            return size
        sources = tuple(self._sources(size))
        values = [source.value for _, source in sources]
        return int(SymbolicNumber(size.node.expr, sources).of({value: scope[value].tensor for value in values}))

    def _sources(self, number: Varying) -> Iterator[tuple[Any, SymbolSource[Value]]]:
        for symbol in number.node.expr.free_symbols:
            yield symbol, self._graph.symbol_sources[str(symbol)]


def _live(nodes: Sequence[Node], wanted: set[Value]) -> list[Node]:
    live = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(output for output in node.outputs if output is not None):
            live.append(node)
            wanted.update(needs(node))
    return live[::-1]
