"""A case as TorchScript: a module whose `forward` has named inputs, and the other arguments as literals.

The harness calls programs with `*inputs`, which TorchScript cannot compile. So the call is written as source code,
`program(x0, x1, alpha=0.5)`, and scripted. If that is not possible the cell is absent: a lambda has no source to
compile, and TorchScript does not support everything.
"""

from __future__ import annotations

import itertools
import linecache
import math
from collections.abc import Mapping

import torch

from onnx_parity.harness.cases.arguments import Slot
from onnx_parity.harness.cases.program import Call

_numbers = itertools.count()


class NotScriptableError(Exception):
    """The call cannot be written as TorchScript. The message names the argument that cannot."""


def scripted(module: torch.nn.Module) -> torch.jit.ScriptModule:
    """The module as TorchScript."""
    written = _written(module) if isinstance(module, Call) else module
    made: torch.jit.ScriptModule = torch.jit.script(written)
    return made


def _written(call: Call) -> torch.nn.Module:
    """The call with its inputs by name. Its source is stored where TorchScript looks for it."""
    is_module = isinstance(call.program, torch.nn.Module)
    if hasattr(call.program, "__wrapped__"):
        raise NotScriptableError("torch.jit.script compiles the function inside of a decorator without the decorator")
    given = [_spelled(argument, call.names) for argument in call.arguments]
    given += [f"{name}={_spelled(value, call.names)}" for name, value in call.keywords.items()]
    source = (
        "class Written(torch.nn.Module):\n"
        f"    def forward(self, {', '.join(f'{name}: torch.Tensor' for name in call.names)}):\n"
        f"        return {'self.program' if is_module else 'program'}({', '.join(given)})\n"
    )
    file = f"<scripted case {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, object] = {"torch": torch, "program": call.program, "__name__": __name__}
    exec(compile(source, file, "exec"), names)
    kind = names["Written"]
    assert isinstance(kind, type)
    module = kind()
    assert isinstance(module, torch.nn.Module)
    if isinstance(call.program, torch.nn.Module):
        module.add_module("program", call.program)
    for name, buffer in call.named_buffers(recurse=False):
        module.register_buffer(name, buffer)
    return module.train(call.training)


def _spelled(value: object, names: tuple[str, ...]) -> str:
    if isinstance(value, Slot):
        return value.name if value.name in names else f"self.{value.name}"
    if isinstance(value, (tuple, list)):
        items = ", ".join(_spelled(item, names) for item in value)
        return f"[{items}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return str(value) if isinstance(value, torch.dtype) else repr(value)
    if isinstance(value, Mapping) or callable(value):
        raise NotScriptableError(f"{value!r} cannot be an argument in TorchScript")
    raise NotScriptableError(f"a {type(value).__name__} cannot be written in TorchScript")
