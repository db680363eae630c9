"""What a program has changed in its Python objects, by name: attributes, items of lists and dicts, globals, variables.

Most of it is no state, such as caches and counters: whether the program computes with it in a later call is found out
by recording that call (`tracing/second_call.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch

from onnx_parity.exporter.program_state.saved_objects import Kept, Place, content_of, copied
from onnx_parity.exporter.torch_inside.bytecode import line_writing
from onnx_parity.exporter.torch_inside.code_objects import code_of, names_in, variables_of
from onnx_parity.exporter.torch_inside.tensors import buffers_of, modules_of, parameters_of

__all__ = ["changed_in", "named"]

#: The number of objects at which the search for a name ends.
_MOST = 20_000


def changed_in(places: Iterable[Place], program: object) -> list[Kept]:
    """What is other than it was, but for the buffers of a module, which a recording replaces."""
    modules = program.modules() if isinstance(program, torch.nn.Module) else ()
    passed = {id(each) for module in modules for each in (buffers_of(module), parameters_of(module))}
    return [each for place in places for each in place.changes() if id(each.holder) not in passed]


def named(
    changes: Sequence[Kept], program: object, functions: Sequence[FunctionType]
) -> list[tuple[str, tuple[str, int]]]:
    """The names of what has changed, and the file and the line of the program that writes to each; `"", 0` where that
    is not found."""
    paths = _paths(program, functions, {id(each.holder) for each in changes})
    found: dict[str, tuple[str, int]] = {}
    for each in changes:
        path, owner = paths.get(id(each.holder), ("", None))
        is_entry = isinstance(each.holder, dict) and owner is each.holder
        if isinstance(each.holder, type):
            path = each.holder.__qualname__
        last = path.rpartition(".")[2] if each.key is None or is_entry else str(each.key)
        if each.key is not None:
            path = f"{path}[{each.key!r}]" if is_entry else f"{path}.{each.key}" if path else str(each.key)
        if path:
            found.setdefault(path, line_writing(last.partition("[")[0], functions))
    return [*found.items()]


def _paths(program: object, functions: Sequence[FunctionType], wanted: set[int]) -> dict[int, tuple[str, object]]:
    """The paths from a program, and from the globals of its functions, to objects, by their ids, with the object that
    has each as its attributes."""
    found: dict[int, tuple[str, object]] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([("", program)])
    for each in functions:
        names = sorted(names_in(code_of(each)) & each.__globals__.keys())
        waiting += [(name, each.__globals__[name]) for name in names]
    while waiting and len(seen) < _MOST and len(found) < len(wanted):
        path, value = waiting.popleft()
        if id(value) in seen or isinstance(value, (torch.Tensor, str, int, float, type, ModuleType)):
            continue
        seen.add(id(value))
        if id(value) in wanted:
            found.setdefault(id(value), (path, value))
        if isinstance(value, dict):
            waiting += [(f"{path}[{key!r}]", each) for key, each in copied(value).items() if type(key) in (str, int)]
        elif isinstance(value, (list, tuple, deque)):
            waiting += [(f"{path}[{place}]", each) for place, each in enumerate(value)]
        elif isinstance(value, MethodType):
            waiting += [(path, value.__self__), (path, value.__func__)]
        elif isinstance(value, FunctionType):
            for name, cell in variables_of(value):
                waiting += [(name, cell), (name, content_of(cell))]
        else:
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict):
                if id(attributes) in wanted:
                    found.setdefault(id(attributes), (path, value))
                prefix = f"{path}." if path else ""
                waiting += [(f"{prefix}{name}", each) for name, each in attributes.items() if name[:1] != "_"]
                waiting += [(f"{prefix}{name}", each) for name, each in attributes.items() if name[:1] == "_"]
                if isinstance(value, torch.nn.Module):
                    waiting.extendleft((f"{prefix}{name}", each) for name, each in modules_of(value).items())
    return found
