"""Attributes of compiled modules during a recording. If a script assigns to one, later reads return the new value.

The modules themselves are never written to. At the end, changed attributes are reported to the recorder.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import is_number, same_leaf
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.script.operator_arguments import Part, from_python
from onnx_parity.exporter.script.values import Instance, ScriptList
from onnx_parity.exporter.torch_inside.torchscript import CompiledModule, ScriptObject, compiled_module

__all__ = ["ModuleAttributes"]

#: Objects whose attributes are read one by one.
_MODULES = (CompiledModule, ScriptObject)


class ModuleAttributes:
    """The attributes of modules in one recording, from one call of a script to the next."""

    def __init__(self) -> None:
        #: By module and name, an object with that one attribute. Branches and loops carry it like any other object.
        self._assigned: dict[tuple[Any, str], Instance] = {}
        #: Lists and dicts, which scripts may change without an assignment, by module and name.
        self._containers: dict[tuple[Any, str], Any] = {}
        #: The value of each attribute before the recording, and the path of its module.
        self._before: dict[tuple[Any, str], tuple[Any, str]] = {}

    @staticmethod
    def of(blocks: Blocks) -> ModuleAttributes:
        """The attributes of the current recording."""
        known = _recorded.get(blocks.recorder)
        if known is None:
            known = _recorded[blocks.recorder] = ModuleAttributes()
            blocks.recorder.at_end.append(lambda program: known.find_changed(program, blocks))
        return known

    def read(self, part: Part, name: str) -> Any:
        """The value of an attribute that no script assigns to."""
        value = part.module.getattr(name)
        if isinstance(value, _MODULES):
            return Part(value, f"{part.path}.{name}" if part.path else name)
        if not isinstance(value, (list, dict)):
            return from_python(value)
        key = (part.module, name)
        if key not in self._containers:
            self._containers[key] = from_python(value)
            self._before[key] = (from_python(value), part.path)
        return self._containers[key]

    def assigned(self, part: Part, name: str) -> Instance:
        """The object that contains the current value of an attribute that scripts assign to."""
        key = (part.module, name)
        if key not in self._assigned:
            value = self.read(part, name)
            self._assigned[key] = Instance({name: value})
            self._before.setdefault(key, (value, part.path))
        return self._assigned[key]

    def find_changed(self, program: object, blocks: Blocks) -> dict[str, Any]:
        """The changed attributes, by their names from the root of the program."""
        paths = {}
        if isinstance(program, torch.nn.Module):
            paths = {compiled_module(module): path for path, module in program.named_modules()}
        found = {}
        for key, (before, path) in self._before.items():
            module, name = key
            after = self._assigned[key].attributes[name] if key in self._assigned else self._containers[key]
            if not _same(before, after):
                path = paths.get(module, path)
                found[f"{path}.{name}" if path else name] = blocks.as_tensor(after) if is_number(after) else after
        return found


_recorded: WeakKeyDictionary[Recorder, ModuleAttributes] = WeakKeyDictionary()


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, ScriptList) and isinstance(after, ScriptList):
        same_length = before.is_known and after.is_known and len(before.items) == len(after.items)
        return same_length and all(map(_same, before.items, after.items))
    if isinstance(before, tuple) and isinstance(after, tuple):
        return len(before) == len(after) and all(map(_same, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    return same_leaf(before, after)
