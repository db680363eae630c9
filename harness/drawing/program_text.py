"""The recorded program as text: one line for each operator, with types, arguments, and the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Block, Graph, Node, Primitive, Size, Value, Varying
from onnx_parity.harness.drawing.places import line_of

#: The list of an argument is cut after so many items.
_MOST_ITEMS = 16


def program_text(graph: Graph) -> str:
    return "\n".join(_Printer(graph).lines())


class _Printer:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names: dict[int, str] = {id(item.value): item.name for item in graph.inputs}

    def lines(self) -> Iterator[str]:
        inputs = ", ".join(self._typed(item.value) for item in self._graph.inputs)
        yield f"program({inputs}):"
        yield from self._statements(self._graph.live_nodes(), "  ")
        yield f"  return {', '.join(map(self._named, self._graph.outputs))}"

    def _statements(self, nodes: list[Node], indent: str) -> Iterator[str]:
        for node in nodes:
            plain = {name: value for name, value in node.arguments.items() if not isinstance(value, Block)}
            arguments = ", ".join(f"{name}={self._argument(value)}" for name, value in plain.items())
            results = ", ".join("_" if output is None else self._typed(output) for output in node.outputs)
            operator = node.op.name if isinstance(node.op, Primitive) else str(node.op)
            place = ", ".join(part for part in (line_of(node.origin), node.origin.module) if part)
            comment = f"  # {place}" if place else ""
            yield f"{indent}{results} = {operator}({arguments}){comment}"
            for name, block in node.arguments.items():
                if isinstance(block, Block):
                    yield f"{indent}  {name}({', '.join(map(self._typed, block.inputs))}):"
                    yield from self._statements(block.nodes, f"{indent}    ")
                    yield f"{indent}    return {', '.join(map(self._named, block.outputs))}"

    def _typed(self, value: Value) -> str:
        sizes = ", ".join(map(self._size, value.shape))
        return f"{self._named(value)}: {str(value.dtype).removeprefix('torch.')}[{sizes}]"

    def _named(self, value: Value) -> str:
        if value.constant is not None and id(value) not in self._names:
            tensor = value.constant
            return value.name or (str(tensor.item()) if tensor.numel() == 1 else f"constant{list(tensor.shape)}")
        return self._names.setdefault(id(value), value.name or f"v{len(self._names)}")

    def _size(self, size: Size) -> str:
        return str(size) if isinstance(size, int) else self._graph.size_name(size)

    def _argument(self, argument: Any) -> str:
        if isinstance(argument, Value):
            return self._named(argument)
        if isinstance(argument, (list, tuple)):
            shown = [self._argument(item) for item in argument[:_MOST_ITEMS]]
            return f"[{', '.join([*shown, *(['…'] if len(argument) > _MOST_ITEMS else [])])}]"
        if isinstance(argument, Varying):
            return self._graph.size_name(argument)
        return str(argument).removeprefix("torch.") if isinstance(argument, torch.dtype) else str(argument)
