"""Programs that look at values: what a tensor is for the example inputs, computed only when the program asks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from exporter.capture.graph import Node, Value
from exporter.capture.origin import OriginFinder
from exporter.capture.symbols import HintedShapeEnv
from exporter.errors import CaptureError, FrozenValueError

__all__ = ["Reader", "TracerWarning", "outside_of_modes"]


class TracerWarning(UserWarning):
    """The program looked at a value; the recording follows what the example input did."""


class Reader:
    """Reads values of a recording: warns, or refuses under `strict`, where what is read depends on an input."""

    def __init__(
        self,
        nodes: list[Node],
        size_sources: dict[str, tuple[Value, int]],
        origins: OriginFinder,
        shapes: ShapeEnv | None,
        strict: bool,
    ) -> None:
        self._nodes = nodes
        self._size_sources = size_sources
        self._origins = origins
        self._shapes = shapes
        self._strict = strict
        #: The tensors that the program is called with, by the inputs they are.
        self.examples: dict[Value, torch.Tensor] = {}
        #: Of each symbol that was read from a tensor of one int, that tensor.
        self.scalars: dict[str, Value] = {}
        #: Why the recording was given up. An exception that comes through TorchScript loses its type.
        self.refusal: CaptureError | None = None

    def read(self, values: Sequence[Value]) -> list[torch.Tensor]:
        """What values are for the example inputs."""
        self._say_that_read(values)
        with outside_of_modes(), torch.no_grad():
            return [self._evaluate(value) for value in values]

    def read_symbol(self, name: str) -> int | None:
        """What a number that depends on values is for the example inputs; None if nothing is known of it."""
        if name in self.scalars:
            (scalar,) = self.read([self.scalars[name]])
            with outside_of_modes():
                return int(scalar.item())
        if name in self._size_sources:
            value, axis = self._size_sources[name]
            return self.read([value])[0].shape[axis]
        return None

    def _say_that_read(self, values: Sequence[Value]) -> None:
        """Warn, or refuse, where a value that is now fixed depends on an input."""
        if any(self.depends_on_input(value) for value in values):
            origin = self._origins.find()
            where = f" at {origin.where}" if origin.where else ""
            text = (
                f"the program turned a tensor into a Python value{where}; the exported model has the example's value "
                "built in and will be wrong where another input gives another value. Keep it a tensor (torch.where, "
                "torch.cond), or script the function that reads it"
            )
            if self._strict:
                self.refusal = FrozenValueError(text)
                raise self.refusal
            warnings.warn_explicit(text, TracerWarning, origin.file or "<unknown>", origin.line)

    def depends_on_input(self, value: Value) -> bool:
        """Whether another input may give another value: not so of weights and of what is computed from them."""
        seen: set[int] = set()
        pending = [value]
        while pending:
            value = pending.pop()
            if id(value) in seen or value.constant is not None:
                continue
            seen.add(id(value))
            if value.node is None:
                return True
            pending.extend(value.node.inputs())
        return False

    def _evaluate(self, value: Value) -> torch.Tensor:
        """Compute a value from the example inputs: only what it needs, only when the program asks."""
        known: dict[int, torch.Tensor] = {}

        def tensor_of(value: Value) -> torch.Tensor:
            if value.constant is not None:
                return value.constant
            example = self.examples.get(value)
            return example if example is not None else known[id(value)]

        def real(argument: Any) -> Any:
            if isinstance(argument, Value):
                return tensor_of(argument)
            if isinstance(argument, list):
                return [real(item) for item in argument]
            if isinstance(argument, torch.SymInt):
                assert isinstance(self._shapes, HintedShapeEnv)
                return self._shapes.size_in_example(argument)
            return argument

        if value.node is not None:
            for node in self._slice(value):
                result = node.op(**{name: real(argument) for name, argument in node.arguments.items()})
                tensors = result if isinstance(result, (list, tuple)) else (result,)
                for output, tensor in zip(node.outputs, tensors, strict=True):
                    if output is not None:
                        known[id(output)] = tensor
        return tensor_of(value)

    def _slice(self, value: Value) -> list[Node]:
        needed = {id(value)}
        nodes = []
        for node in reversed(self._nodes):
            if any(id(output) in needed for output in node.outputs):
                nodes.append(node)
                needed.update(id(item) for item in node.inputs())
        return nodes[::-1]


def outside_of_modes() -> AbstractContextManager[Any]:
    return torch.utils._python_dispatch._disable_current_modes()
