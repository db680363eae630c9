"""Reads a TorchScript graph once into plain objects, because each access to torch's own takes microseconds."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import torch
from msgspec.structs import replace

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.script.alias_uses import Aliases
from onnx_parity.exporter.script.inlined_calls import graph_of_call
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of
from onnx_parity.exporter.torch_inside.modes import outside_of_modes
from onnx_parity.exporter.torch_inside.torchscript import (
    ClassType,
    Graph,
    ScriptFunction,
    ScriptNode,
    ScriptValue,
    inline_calls,
)

__all__ = ["ASSIGNED_ATTRIBUTE", "Body", "Operator", "Script", "Step", "describe", "parse", "writes_to_container"]

#: A step that TorchScript does not have. It returns an object with a module attribute that scripts assign to.
ASSIGNED_ATTRIBUTE = "onnx_parity::assigned_attribute"
_QUANTIZING = ("quantized::", "aten::quantize_")
#: More than the values of any graph.
_NUMBERS_OF_A_GRAPH = 1 << 32
_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_SCHEMA = re.compile(r"([\w:]+)(?:\.(\w+))?\(")
#: Operations that change a list or a dict.
_CONTAINER_WRITES = frozenset(
    f"aten::{name}"
    for name in (
        "append", "extend", "insert", "pop", "popitem", "clear", "remove", "reverse", "sort", "_set_item", "Delete",
        "setdefault", "update",
    )
)  # fmt: skip


class Parameter(msgspec.Struct, frozen=True):
    name: str
    #: Whether it is given by keyword only.
    named: bool
    takes_tensor: bool
    #: Whether it takes an int, a float or a bool.
    takes_scalar: bool


class Operator(msgspec.Struct, frozen=True, eq=False):
    """An operator of torch's dispatcher, with the facts from its schema that the interpreter needs."""

    call: OpOverload
    parameters: tuple[Parameter, ...]
    writes: bool
    returns_view: bool


class Step(msgspec.Struct, eq=False):
    """One node of the graph."""

    #: `aten::add`, `prim::If`.
    kind: str
    #: The operator of torch's dispatcher; None if the step is not one.
    operator: Operator | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    blocks: tuple[Body, ...]
    #: The name of the attribute, if the step reads or assigns to one.
    name: str
    node: ScriptNode
    _place: tuple[str, int] | None = None

    @property
    def returns(self) -> str:
        """The type of its result: `int`, `Tensor`, `List[int]`."""
        return str(self.node.output().type())

    @property
    def place(self) -> tuple[str, int]:
        """File and line; the file is empty if torch does not know it."""
        if self._place is None:
            found = _LINE.search(str(self.node.sourceRange()))
            self._place = (found[1], int(found[2])) if found else ("", 0)
        return self._place


@dataclass(slots=True, eq=False)
class Body:
    """The steps of the graph, or of one of its blocks."""

    inputs: tuple[int, ...]
    steps: list[Step]
    outputs: tuple[int, ...]
    #: The values of outer blocks that it uses.
    captured: tuple[int, ...] = field(init=False)
    #: Whether a step in it may write to a tensor, a list, a dict or an attribute.
    writes: bool = field(init=False)
    #: Whether it ends with an exception.
    raises: bool = field(init=False)
    #: Values that are written to in place, directly or through views.
    written: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        own = {*self.inputs, *(output for step in self.steps for output in step.outputs)}
        used = [number for step in self.steps for number in step.inputs]
        used += [number for step in self.steps for block in step.blocks for number in block.captured]
        self.captured = tuple(dict.fromkeys(number for number in (*used, *self.outputs) if number not in own))
        self.writes = any(_writes(step) for step in self.steps)
        self.written = frozenset(_find_written(self.steps))
        self.raises = any(step.kind == "prim::RaiseException" for step in self.steps)

    def uses(self) -> Iterator[int]:
        """All uses of values, including those in inner blocks. A value that is used twice is returned twice."""
        for step in self.steps:
            yield from step.inputs
            for block in step.blocks:
                yield from block.uses()
        yield from self.outputs


@dataclass(eq=False)
class Script:
    """A whole graph, and its constants by the numbers of their values."""

    body: Body
    constants: dict[int, Any]
    #: Kept here, because the nodes of a graph do not keep it alive.
    graph: Graph
    #: The graphs of calls that have one of their own, kept for the same reason.
    called: list[Graph]
    #: Whether it quantizes tensors.
    quantizes: bool
    #: The number of uses of each value.
    uses: Counter[int] = field(init=False)

    def __post_init__(self) -> None:
        self.uses = Counter(self.body.uses())
        self._seen_elsewhere: dict[int, bool] = {}

    @cached_property
    def aliases(self) -> Aliases:
        return Aliases(self.graph)

    def is_seen_elsewhere(self, output: Any) -> bool:
        known = self._seen_elsewhere.get(output.unique())
        if known is None:
            known = self._seen_elsewhere[output.unique()] = self.aliases.is_seen_elsewhere(output)
        return known


#: Parsed functions. What torch.onnx does to their graphs leaves their meaning as it is. The graph of a method belongs
#: to a module, which may change.
_functions: WeakKeyDictionary[ScriptFunction[..., Any], Script] = WeakKeyDictionary()


def parse(callee: Any) -> Script:
    """The graph of a compiled function or method."""
    if not isinstance(callee, ScriptFunction):
        return _Parser(_inline(callee)).script
    known = _functions.get(callee)
    if known is None:
        known = _functions[callee] = _Parser(_inline(callee)).script
    return known


def _inline(callee: Any) -> Graph:
    """The graph with what it calls. torch compares its constants, some of which are tensors, to share equal ones, which
    must not be recorded."""
    with outside_of_modes():
        graph: Graph = callee.inlined_graph
    return graph


class _Parser:
    def __init__(self, graph: Graph) -> None:
        self._constants: dict[int, Any] = {}
        #: Values that are equal to others: results of branches that are always taken, attributes that were read before.
        self._renamed: dict[int, int] = {}
        self._quantizes = False
        #: The names of attributes that the graph assigns to.
        all_nodes: Any = graph.findAllNodes  # type: ignore[attr-defined]
        self._assigned = {node.s("name") for node in all_nodes("prim::SetAttr", True)}
        #: Negative numbers for values that torch's graph does not have.
        self._numbers = itertools.count(-1, -1)
        #: The graphs of calls that have one of their own. torch numbers the values of each graph from 0; here they
        #: follow one another.
        self._called: list[Graph] = []
        self._first = 0
        inputs = [value.unique() for value in graph.inputs()]
        #: The module and the values that are read from it. They are read first, so that a block that writes to a
        #: buffer captures it.
        self._parts = set(inputs[:1])
        self._attributes: dict[tuple[int, str], Step] = {}
        steps = self._steps(graph)
        outputs = tuple(self._ids(graph.outputs()))
        body = Body(tuple(inputs), [*self._attributes.values(), *steps], outputs)
        self.script = Script(body, self._constants, graph, self._called, self._quantizes)

    def _body(self, block: Any) -> Body:
        inputs = tuple(self._numbers_of(block.inputs()))
        steps = self._steps(block)
        return Body(inputs, steps, tuple(self._ids(block.outputs())))

    def _steps(self, block: Any) -> list[Step]:
        """The steps of a block. An `if` whose condition is a constant is replaced by the steps of the taken branch.

        torch takes 10 to 15 microseconds to make an iterator, and less than one to return an input or an output.
        """
        steps: list[Step] = []
        for node in block.nodes():
            kind = node.kind()
            outputs = [node.outputsAt(place) for place in range(node.outputsSize())]
            numbers = tuple(self._numbers_of(outputs))
            if kind == "prim::Constant":
                self._constants[numbers[0]] = outputs[0].toIValue()
                continue
            inputs = tuple(self._ids(map(node.inputsAt, range(node.inputsSize()))))
            self._quantizes = self._quantizes or kind.startswith(_QUANTIZING)
            if kind == "prim::If" and isinstance(self._constants.get(inputs[0]), bool):
                taken = list(node.blocks())[0 if self._constants[inputs[0]] else 1]
                steps += self._steps(taken)
                self._renamed.update(zip(numbers, self._ids(taken.outputs()), strict=True))
                continue
            graph = _graph_of_fork(node) if kind == "prim::fork" else graph_of_call(node)
            if graph is not None:
                called, self._renamed[numbers[0]] = self._call_of(graph, inputs)
                steps += called
                continue
            if kind == "aten::wait":
                self._renamed[numbers[0]] = inputs[0]
                continue
            step = Step(
                kind,
                None if kind.startswith("prim::") else operator_of(node.schema()),
                inputs,
                numbers,
                tuple(map(self._body, node.blocks())) if kind.startswith("prim::") else (),
                node.s("name") if node.hasAttribute("name") else "",
                node,
            )
            of_part = kind in ("prim::GetAttr", "prim::SetAttr") and inputs[0] in self._parts
            if of_part and step.name in self._assigned and not _is_module(outputs):
                step.inputs = (self._assigned_attribute(step), *inputs[1:])
                steps.append(step)
            elif of_part:
                first = self._attributes.setdefault((inputs[0], step.name), step)
                self._parts.update(first.outputs)
                if first is not step:
                    self._renamed[numbers[0]] = first.outputs[0]
            else:
                steps.append(step)
        return steps

    def _call_of(self, graph: Graph, inputs: Sequence[int]) -> tuple[list[Step], int]:
        """The steps of a call that has a graph of its own, and its result."""
        self._called.append(graph)
        outer, self._first = self._first, len(self._called) * _NUMBERS_OF_A_GRAPH
        self._renamed.update(zip(self._numbers_of(graph.inputs()), inputs, strict=True))
        steps = self._steps(graph)
        (result,) = self._ids(graph.outputs())
        self._first = outer
        return steps, result

    def _assigned_attribute(self, step: Step) -> int:
        """The number of the value that represents a module attribute to which the script assigns."""
        key = (step.inputs[0], step.name)
        if key not in self._attributes:
            self._attributes[key] = replace(
                step, kind=ASSIGNED_ATTRIBUTE, inputs=step.inputs[:1], outputs=(next(self._numbers),)
            )
        return self._attributes[key].outputs[0]

    def _ids(self, values: Any) -> Iterator[int]:
        for number in self._numbers_of(values):
            yield self._renamed.get(number, number)

    def _numbers_of(self, values: Any) -> Iterator[int]:
        for value in values:
            yield value.unique() + self._first


def _graph_of_fork(node: Any) -> Graph:
    """The graph of a forked call, which is made where it is forked: its result is also the future."""
    graph: Graph = node.g("Subgraph").copy()
    inline_calls(graph)
    if graph.findAllNodes("prim::SetAttr", True):  # type: ignore[attr-defined]
        raise refused_here(
            "the script assigns to an attribute of a module in a call that it forks with torch.jit.fork: assign to "
            "it outside of the call"
        )
    return graph


def _is_module(outputs: Sequence[ScriptValue]) -> bool:
    """Whether the result of a step is a submodule."""
    return any(isinstance(value.type(), ClassType) for value in outputs)


@cache
def operator_of(schema: str) -> Operator | None:
    """The operator of the dispatcher with this schema; None if only TorchScript has it."""
    found = _SCHEMA.match(schema)
    if found is None:
        return None
    namespace, _, name = found[1].partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    overload = found[2] or "default"
    if packet is None or overload not in packet.overloads():
        return None
    return describe(getattr(packet, overload))


@cache
def describe(call: OpOverload) -> Operator | None:
    """The facts from an operator's schema; None if it has no tensors."""
    schema = schema_of(call)
    types = [str(parameter.type) for parameter in schema.arguments]
    if not any("Tensor" in kind for kind in (*types, *(str(result.type) for result in schema.returns))):
        return None
    parameters = tuple(
        Parameter(parameter.name, parameter.kwarg_only, "Tensor" in kind, "number" in kind or kind == "float")
        for parameter, kind in zip(schema.arguments, types, strict=True)
    )
    returns_view = not schema.is_mutable and any(result.alias_info for result in schema.returns)
    return Operator(call, parameters, bool(schema.is_mutable), returns_view)


def _find_written(steps: Sequence[Step]) -> set[int]:
    """The values that operators write to in place, and the values of which these are views."""
    written: set[int] = set()
    for step in reversed(steps):
        for block in step.blocks:
            written |= block.written
        if step.operator is not None and step.inputs:
            views = step.operator.returns_view and not written.isdisjoint(step.outputs)
            if step.operator.writes or views:
                written.add(step.inputs[0])
    return written


def writes_to_container(step: Step) -> bool:
    """Whether a step changes a list or a dict."""
    return step.kind in _CONTAINER_WRITES


def _writes(step: Step) -> bool:
    if writes_to_container(step) or step.kind == "prim::SetAttr":
        return True
    if step.operator is not None and step.operator.writes:
        return True
    return any(block.writes for block in step.blocks)
