"""A TorchScript graph, read once into plain objects: asking torch's own costs microseconds for each of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

__all__ = ["Body", "Script", "Step", "parsed"]

_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_SCHEMA = re.compile(r"([\w:]+)(?:\.(\w+))?\(")
#: What changes a list or a dict.
_CONTAINER_WRITES = frozenset(
    f"aten::{name}"
    for name in (
        "append", "extend", "insert", "pop", "popitem", "clear", "remove", "reverse", "sort", "_set_item", "Delete",
        "setdefault", "update",
    )
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Step:
    """One node of the graph."""

    #: `aten::add`, `prim::If`.
    kind: str
    #: The operator of torch's dispatcher, where it is one.
    operator: OpOverload | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: The type of what it returns: `int`, `Tensor`, `List[int]`.
    returns: str
    blocks: tuple[Body, ...]
    #: Of an access to an attribute, its name.
    name: str
    node: torch._C.Node
    _place: tuple[str, int] | None = None

    @property
    def place(self) -> tuple[str, int]:
        """File and line; an empty file where torch does not know."""
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
    #: Values of outer blocks that it uses.
    captured: tuple[int, ...] = field(init=False)
    #: Whether something in it may write to a tensor, a list, a dict or an attribute.
    writes: bool = field(init=False)
    #: Whether it ends in an exception.
    raises: bool = field(init=False)

    def __post_init__(self) -> None:
        own = {*self.inputs, *(output for step in self.steps for output in step.outputs)}
        used = [number for step in self.steps for number in step.inputs]
        used += [number for step in self.steps for block in step.blocks for number in block.captured]
        self.captured = tuple(dict.fromkeys(number for number in (*used, *self.outputs) if number not in own))
        self.writes = any(_writes(step) for step in self.steps)
        self.raises = any(step.kind == "prim::RaiseException" for step in self.steps)

    def uses(self) -> Iterator[int]:
        """Every mention of a value, in blocks inside of it too."""
        for step in self.steps:
            yield from step.inputs
            for block in step.blocks:
                yield from block.uses()
        yield from self.outputs


@dataclass(slots=True, eq=False)
class Script:
    """A whole graph; what is constant in it, by value."""

    body: Body
    constants: dict[int, Any]
    #: The parts of a graph do not keep it alive.
    graph: torch._C.Graph


def parsed(graph: torch._C.Graph) -> Script:
    return _Parser(graph).script


class _Parser:
    def __init__(self, graph: torch._C.Graph) -> None:
        self._constants: dict[int, Any] = {}
        #: Values that are others: results of ways that are always taken, attributes that were read before.
        self._renamed: dict[int, int] = {}
        inputs = [value.unique() for value in graph.inputs()]
        #: The module and what is read from it. That is done first of all: a block that writes to a buffer captures it.
        self._parts = set(inputs[:1])
        self._attributes: dict[tuple[int, str], Step] = {}
        steps = self._steps(graph)
        outputs = tuple(self._ids(graph.outputs()))
        body = Body(tuple(inputs), [*self._attributes.values(), *steps], outputs)
        self.script = Script(body, self._constants, graph)

    def _body(self, block: Any) -> Body:
        inputs = tuple(value.unique() for value in block.inputs())
        steps = self._steps(block)
        return Body(inputs, steps, tuple(self._ids(block.outputs())))

    def _steps(self, block: Any) -> list[Step]:
        """The steps of a block; of an `if` whose condition is a constant, those of the way that is taken."""
        steps: list[Step] = []
        for node in block.nodes():
            kind = node.kind()
            outputs = list(node.outputs())
            numbers = tuple(value.unique() for value in outputs)
            if kind == "prim::Constant":
                self._constants[numbers[0]] = outputs[0].toIValue()
                continue
            inputs = tuple(self._ids(node.inputs()))
            if kind == "prim::If" and isinstance(self._constants.get(inputs[0]), bool):
                taken = list(node.blocks())[0 if self._constants[inputs[0]] else 1]
                steps += self._steps(taken)
                self._renamed.update(zip(numbers, self._ids(taken.outputs()), strict=True))
                continue
            step = Step(
                kind,
                _operator(node) if not kind.startswith("prim::") else None,
                inputs,
                numbers,
                str(outputs[0].type()) if outputs else "",
                tuple(map(self._body, node.blocks())),
                node.s("name") if node.hasAttribute("name") else "",
                node,
            )
            if kind == "prim::GetAttr" and inputs[0] in self._parts:
                first = self._attributes.setdefault((inputs[0], step.name), step)
                self._parts.update(first.outputs)
                if first is not step:
                    self._renamed[numbers[0]] = first.outputs[0]
            else:
                steps.append(step)
        return steps

    def _ids(self, values: Any) -> Iterator[int]:
        for value in values:
            number = value.unique()
            yield self._renamed.get(number, number)


def _operator(node: torch._C.Node) -> OpOverload | None:
    """The operator of the dispatcher that a node calls; None for what only TorchScript has."""
    found = _SCHEMA.match(node.schema())
    if found is None:
        return None
    namespace, _, name = found[1].partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    overload = found[2] or "default"
    if packet is None or overload not in packet.overloads():
        return None
    operator: OpOverload = getattr(packet, overload)
    schema = operator._schema
    if not any("Tensor" in str(end.type) for end in (*schema.arguments, *schema.returns)):
        return None
    return operator


def _writes(step: Step) -> bool:
    if step.kind in _CONTAINER_WRITES or step.kind == "prim::SetAttr":
        return True
    if step.operator is not None and step.operator._schema.is_mutable:
        return True
    return any(block.writes for block in step.blocks)
