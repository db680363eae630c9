"""The values that the blocks of a script use from outside, and copies of those that a block may write to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnx_parity.exporter.script.parse import Body
from onnx_parity.exporter.script.values import Instance, Maybe, ScriptList, parts_of

__all__ = ["Outside"]


class Outside:
    """The values from outside that some blocks use. Each block gets copies of those that it may write to."""

    def __init__(self, env: dict[int, Any], bodies: Sequence[Body]) -> None:
        self._env = env
        self._captured = dict.fromkeys(number for body in bodies for number in body.captured)
        writes = any(body.writes for body in bodies)
        values = [env[number] for number in self._captured] if writes else []
        tensors: dict[int, torch.Tensor] = {}
        containers: dict[int, Any] = {}
        for value in values:
            if isinstance(value, (ScriptList, dict, Instance)):
                containers[id(value)] = value
            for tensor in _tensors_in(value):
                tensors[id(tensor)] = tensor
        self.tensors = list(tensors.values())
        self.containers = tuple(containers.values())

    def copy(self, own: Sequence[torch.Tensor]) -> tuple[dict[int, Any], tuple[Any, ...]]:
        """The outer values for a block, with its own tensors and containers in place of these; and those containers."""
        replaced: dict[int, Any] = {id(tensor): mine for tensor, mine in zip(self.tensors, own, strict=True)}
        containers = tuple(_copy(container, replaced) for container in self.containers)
        return self._with(replaced), containers

    def fill(
        self,
        own: Sequence[torch.Tensor],
        originals: Sequence[Any],
        containers: Sequence[Any],
        lists: Sequence[ScriptList],
        fresh: Sequence[ScriptList],
    ) -> dict[int, Any]:
        """The outer values for a block, with the given containers in the place of the originals."""
        replaced: dict[int, Any] = {id(tensor): mine for tensor, mine in zip(self.tensors, own, strict=True)}
        replaced.update({id(old): new for old, new in zip(originals, containers, strict=True)})
        replaced.update({id(old): new for old, new in zip(lists, fresh, strict=True)})
        return self._with(replaced)

    def _with(self, replaced: dict[int, Any]) -> dict[int, Any]:
        if not replaced:
            return dict(self._env)
        changed = {number: _copy(self._env[number], replaced) for number in self._captured}
        return {**self._env, **changed}

    def carry(self, state: Sequence[Any], lists: Sequence[ScriptList]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The values that a loop carries: its own state, and the containers that it does not only append to."""
        return tuple(state), tuple(c for c in self.containers if not any(c is each for each in lists))

    def find_collecting(self, body: Body) -> list[ScriptList]:
        """Lists that the body only appends to, one item in each iteration."""
        uses: dict[int, int] = {}
        for number in body.uses():
            uses[number] = uses.get(number, 0) + 1
        appended = [step.inputs[0] for step in body.steps if step.kind == "aten::append"]
        found = []
        for number in self._captured:
            value = self._env[number]
            named = sum(self._env[other] is value for other in self._captured)
            if not isinstance(value, ScriptList) or value.sequence is not None:
                continue
            if uses.get(number) == 1 and appended.count(number) == 1 and named == 1:
                found.append(value)
        return found


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Maybe):
        yield from _tensors_in(value.value)
    for part in parts_of(value):
        yield from _tensors_in(part)
    if isinstance(value, ScriptList):
        # A list that is one value of the graph is never written to, because operations on it return a new list.
        yield from _tensors_in(value.stack)


def _copy(value: Any, replaced: dict[int, Any]) -> Any:
    """A copy of a value, with its tensors and containers replaced."""
    known = replaced.get(id(value))
    if known is not None:
        return known
    match value:
        case ScriptList(items=items, stack=stack):
            made: Any = ScriptList([_copy(item, replaced) for item in items], _copy(stack, replaced), value.sequence)
        case dict():
            made = {key: _copy(item, replaced) for key, item in value.items()}
        case Instance(attributes=attributes):
            made = Instance(_copy(attributes, replaced))
        case tuple():
            return tuple(_copy(item, replaced) for item in value)
        case Maybe(present=present, value=inner):
            return Maybe(_copy(present, replaced), _copy(inner, replaced))
        case _:
            return value
    replaced[id(value)] = made
    return made
