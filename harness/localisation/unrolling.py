"""The way that a program takes for given inputs: branches decided and loops unrolled, so that operators alone are left.

torch runs the program to find it. Of what it computes no more is held than what the operators to come still need.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.capture.graph.graph import Block, Graph, Holds, Node, Origin, Primitive, Value, operator_name
from onnx_parity.exporter.capture.graph.list_primitives import TO_LIST
from onnx_parity.exporter.capture.record.blocks import IF, LOOP, SCAN
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.harness.localisation.pieces import Number, Recording, needs, run

__all__ = ["unrolled"]


class _Met(NamedTuple):
    """What a value of the graph is on this way, at this turn of it."""

    value: Value
    tensor: torch.Tensor


_BLOCKS = {IF: "the branch", LOOP: "the loop", SCAN: "the scan"}

#: What is known in a block: its own values, and those of the blocks that it stands in.
_Scope = MutableMapping[Value, _Met]


@torch.no_grad()
def unrolled(graph: Graph, inputs: Sequence[torch.Tensor]) -> Recording:
    """The operators that a program comes to for these inputs, without those that no output and no decision needs."""
    way = _Way(graph)
    starts = [item.value for item in graph.inputs]
    scope = ChainMap({value: _Met(value, tensor) for value, tensor in zip(starts, inputs, strict=True)})
    met = way.through(Block([], graph.live_nodes(), graph.outputs), scope, "")
    items = [
        way.items(value, each) if value.holds is Holds.LIST else [each]
        for value, each in zip(graph.outputs, met, strict=True)
    ]
    outputs = tuple(each.value for each in itertools.chain(*items))
    nodes = _live(way.nodes, {*outputs, *way.decisions})
    read = {value for node in nodes for value in needs(node)}
    given = {value: tensor for value, tensor in way.given.items() if value in read}
    return Recording(tuple(starts), given, tuple(nodes), outputs, tuple(way.decisions), way.within, tuple(way.blocks))


@dataclass(eq=False)
class _Way:
    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    decisions: list[Value] = field(default_factory=list)
    given: dict[Value, torch.Tensor] = field(default_factory=dict)
    within: dict[Node, str] = field(default_factory=dict)
    #: A set that keeps its order.
    blocks: dict[str, None] = field(default_factory=dict)
    _plans: dict[Block, list[tuple[Node, list[Value]]]] = field(default_factory=dict)

    def through(self, block: Block, scope: ChainMap[Value, _Met], turn: str) -> list[_Met]:
        """Go through a block whose inputs are in the scope; what it gives."""
        for node, spent in self._plan(block):
            if isinstance(node.op, Primitive):
                self._primitive(node, scope, turn)
            else:
                self._operator(node, scope, turn)
            for value in spent:
                # What an outer block knows is for the outer block to forget.
                scope.maps[0].pop(value, None)
        return [self._met(output, scope) for output in block.outputs]

    def _plan(self, block: Block) -> list[tuple[Node, list[Value]]]:
        """The nodes of a block that are needed, each with the values that none after it needs."""
        if block not in self._plans:
            nodes = self.graph.live_in(block.nodes, block.outputs)
            last = {value: place for place, node in enumerate(nodes) for value in self._touched(node)}
            spent: list[list[Value]] = [[] for _ in nodes]
            for value, place in last.items():
                if value not in block.outputs:
                    spent[place].append(value)
            self._plans[block] = list(zip(nodes, spent, strict=True))
        return self._plans[block]

    def _touched(self, node: Node) -> Iterator[Value]:
        yield from (output for output in node.outputs if output is not None)
        yield from node.inputs()
        for size in node.sizes():
            if not isinstance(size, int):
                names = map(str, size.node.expr.free_symbols)
                # Sizes of results may be made of symbols that nothing can be read from, and nothing asks for.
                yield from (self.graph.symbol_sources[name][0] for name in names if name in self.graph.symbol_sources)

    def _sources(self, number: torch.SymInt | torch.SymFloat) -> Iterator[tuple[Any, Value, int | None]]:
        for symbol in number.node.expr.free_symbols:
            yield symbol, *self.graph.symbol_sources[str(symbol)]

    def _met(self, value: Value, scope: _Scope) -> _Met:
        return _Met(value, value.constant) if value.constant is not None else scope[value]

    # --- operators ----------------------------------------------------------------------------------------------------

    def _operator(self, node: Node, scope: _Scope, turn: str) -> None:
        tensors: dict[Value, torch.Tensor] = {}

        def here(argument: Any) -> Any:
            if isinstance(argument, Value):
                met = self._met(argument, scope)
                tensors[met.value] = met.tensor
                return met.value
            if isinstance(argument, (list, tuple)):
                return [here(item) for item in argument]
            if isinstance(argument, (torch.SymInt, torch.SymFloat)):
                sources = [(symbol, here(value), axis) for symbol, value, axis in self._sources(argument)]
                return Number(argument.node.expr, tuple(sources))
            return argument

        arguments = {name: here(argument) for name, argument in node.arguments.items()}
        outputs = [None if each is None else Value(each.dtype, each.shape, name=each.name) for each in node.outputs]
        made = dict(self._added(Node(node.op, arguments, node.origin, outputs), tensors, turn))
        for recorded, output in zip(node.outputs, outputs, strict=True):
            if recorded is not None and output is not None:
                scope[recorded] = _Met(output, made[output])

    def _added(self, node: Node, tensors: dict[Value, torch.Tensor], turn: str) -> Iterator[tuple[Value, torch.Tensor]]:
        self.nodes.append(node)
        if turn:
            self.within[node] = turn
        yield from run(node, tensors)

    def items(self, listed: Value, stack: _Met) -> list[_Met]:
        """Those of a list of tensors, which lie in one."""
        assert listed.node is not None
        select, origin = torch.ops.aten.select.int, listed.node.origin
        return [
            self._computed(select, origin, "", {"self": stack, "dim": 0, "index": number})
            for number in range(stack.tensor.shape[0])
        ]

    def _computed(self, op: Any, origin: Origin, turn: str, arguments: dict[str, Any]) -> _Met:
        """An operator that the program does not have, and that a loop does."""
        tensors: dict[Value, torch.Tensor] = {}

        def here(argument: Any) -> Any:
            if isinstance(argument, _Met):
                tensors[argument.value] = argument.tensor
                return argument.value
            return [here(item) for item in argument] if isinstance(argument, list) else argument

        output = Value(torch.float32, ())
        node = Node(op, {name: here(argument) for name, argument in arguments.items()}, origin, [output])
        ((_, tensor),) = self._added(node, tensors, turn)
        output.dtype, output.shape = tensor.dtype, tuple(tensor.shape)
        return _Met(output, tensor)

    # --- branches and loops -------------------------------------------------------------------------------------------

    def _primitive(self, node: Node, scope: ChainMap[Value, _Met], turn: str) -> None:
        if node.op in _BLOCKS:
            self.blocks[_at(_BLOCKS[node.op], node)] = None
        if node.op == IF:
            results = self._branch(node, scope, turn)
        elif node.op == LOOP:
            results = self._loop(node, scope, turn)
        elif node.op == SCAN:
            results = self._scan(node, scope, turn)
        elif node.op == TO_LIST:
            # Until the program returns it, a list is the tensor that its items lie in.
            results = [self._met(node.arguments["stack"], scope)]
        else:
            raise CaptureError(
                f"{operator_name(node.op)}{node.origin.placed} is about a list of tensors of other sizes, or None"
            )
        for output, met in zip(node.outputs, results, strict=True):
            assert output is not None
            scope[output] = met

    def _decided(self, value: Value, scope: _Scope) -> torch.Tensor:
        met = self._met(value, scope)
        if value.constant is None:
            self.decisions.append(met.value)
        return met.tensor

    def _branch(self, node: Node, scope: ChainMap[Value, _Met], turn: str) -> list[_Met]:
        name = "then" if self._decided(node.arguments["condition"], scope) else "orelse"
        said = _at("true branch" if name == "then" else "false branch", node)
        return self.through(node.arguments[name], scope.new_child(), _joined(said, turn))

    def _loop(self, node: Node, scope: ChainMap[Value, _Met], turn: str) -> list[_Met]:
        block: Block = node.arguments["block"]
        state = [self._met(value, scope) for value in node.arguments["initial"]]
        trips, going = node.arguments["trips"], node.arguments["condition"]
        limit = None if trips is None else int(self._decided(trips, scope))
        goes_on = True if going is None else bool(self._decided(going, scope))
        collected: list[list[_Met]] = [[] for _ in block.outputs[1 + len(state) :]]
        number = 0
        while goes_on and (limit is None or number < limit):
            counted = self._known(torch.tensor(number)), self._known(torch.tensor(True))
            inside = scope.new_child(dict(zip(block.inputs, (*counted, *state), strict=True)))
            going_on, *rest = self.through(
                block, inside, _joined(_at(f"iteration {number + 1} of the loop", node), turn)
            )
            goes_on = bool(going_on.tensor)
            if block.outputs[0].constant is None and going_on.value not in self.given:
                self.decisions.append(going_on.value)
            state = rest[: len(state)]
            for items, item in zip(collected, rest[len(state) :], strict=True):
                items.append(item)
            number += 1
        outputs = node.outputs[len(state) :]
        return [*state, *self._stacked(node, collected, outputs, scope, turn)]

    def _scan(self, node: Node, scope: ChainMap[Value, _Met], turn: str) -> list[_Met]:
        block: Block = node.arguments["block"]
        state = [self._met(value, scope) for value in node.arguments["initial"]]
        over = [self._met(value, scope) for value in node.arguments["over"]]
        collected: list[list[_Met]] = [[] for _ in block.outputs[len(state) :]]
        for number in range(over[0].tensor.shape[0]):
            inner = _joined(_at(f"iteration {number + 1} of the scan", node), turn)
            select = torch.ops.aten.select.int
            slices = [
                self._computed(select, node.origin, inner, {"self": each, "dim": 0, "index": number}) for each in over
            ]
            inside = scope.new_child(dict(zip(block.inputs, (*state, *slices), strict=True)))
            given = self.through(block, inside, inner)
            state = given[: len(state)]
            for items, item in zip(collected, given[len(state) :], strict=True):
                items.append(item)
        return [*state, *self._stacked(node, collected, node.outputs[len(state) :], scope, turn)]

    def _stacked(
        self,
        node: Node,
        collected: Sequence[list[_Met]],
        outputs: Sequence[Value | None],
        scope: _Scope,
        turn: str,
    ) -> Iterator[_Met]:
        for items, output in zip(collected, outputs, strict=True):
            assert output is not None
            if items:
                yield self._computed(torch.ops.aten.stack.default, node.origin, turn, {"tensors": items, "dim": 0})
            else:
                sizes = [0, *(self._size(size, scope) for size in output.shape[1:])]
                yield self._known(torch.zeros(sizes, dtype=output.dtype))

    def _size(self, size: int | torch.SymInt, scope: _Scope) -> int:
        if isinstance(size, int):
            return size
        met = {symbol: (scope[value], axis) for symbol, value, axis in self._sources(size)}
        sources = tuple((symbol, each.value, axis) for symbol, (each, axis) in met.items())
        return int(Number(size.node.expr, sources).of(dict(each for each, _ in met.values())))

    def _known(self, tensor: torch.Tensor) -> _Met:
        value = Value(tensor.dtype, tuple(tensor.shape))
        self.given[value] = tensor
        return _Met(value, tensor)


def _live(nodes: Sequence[Node], wanted: set[Value]) -> list[Node]:
    live = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(output for output in node.outputs if output is not None):
            live.append(node)
            wanted.update(needs(node))
    return live[::-1]


def _at(turn: str, node: Node) -> str:
    return f"{turn}{node.origin.placed}"


def _joined(inner: str, outer: str) -> str:
    return f"{inner}, {outer}" if outer else inner
