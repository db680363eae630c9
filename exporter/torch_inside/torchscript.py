"""TorchScript: compiled functions, methods and modules, and their graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import ClassType, Graph, ScriptFunction, ScriptMethod, ScriptObject, parse_schema
from torch._C import Node as ScriptNode
from torch._C import ScriptModule as CompiledModule
from torch._C import Value as ScriptValue
from torch._C import _jit_pass_inline as inline_calls
from torch.jit import _builtins as table_of_builtins
from torch.jit import _trace as tracing

__all__ = [
    "ClassType", "CompiledModule", "Graph", "ScriptFunction", "ScriptMethod", "ScriptNode", "ScriptObject",
    "ScriptValue", "attribute_of", "attributes_of", "compiled_module", "inline_calls", "is_of_cpp_class", "method_of",
    "parse_schema", "stand_in_for_builtin", "table_of_builtins", "tracing",
]  # fmt: skip


def stand_in_for_builtin(function: Callable[..., Any], other: Callable[..., Any]) -> None:
    """Have scripts that are compiled take another function for one of torch's that is written in C."""
    operator = table_of_builtins._find_builtin(function)
    if operator is not None:
        table_of_builtins._register_builtin(other, operator)


def compiled_module(module: torch.nn.Module) -> CompiledModule | None:
    """The compiled module behind a scripted module; None for a module of Python."""
    return getattr(module, "_c", None)


def attribute_of(module: torch.jit.ScriptModule, name: str) -> Any:
    """The value of an attribute of a scripted module."""
    return module._c.getattr(name)


def attributes_of(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """The attributes of a scripted module other than parameters and submodules. Lists and dicts are copies."""
    attributes = module._concrete_type.get_attributes()
    return {name: module._c.getattr(name) for name, (_, is_parameter) in attributes.items() if not is_parameter}


def method_of(module: Any, name: str) -> ScriptMethod[..., Any]:
    """A method of a compiled module or object."""
    method: ScriptMethod[..., Any] = module._get_method(name)
    return method


def is_of_cpp_class(method: ScriptMethod[..., Any]) -> bool:
    """Whether a method is one of a class of C++, as the packed weights of quantized layers have."""
    return method.owner._type().qualified_name().startswith("__torch__.torch.classes.")
