"""Copies of a module, which are run in place of the module, so that a run neither writes to it nor converts it.

Other threads may call the module at the same time. The copy shares the memory of the parameters unless they are needed
in another dtype, since they can be gigabytes: few programs write to it, though some give a parameter other memory.
Buffers, tensors in attributes, and parameters of which it is known that the program writes to them are copied.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Collection, Set
from functools import partial
from operator import is_
from types import FunctionType, MethodType
from typing import Any, TypeVar

import torch

from onnx_parity.exporter.arrays import in_width
from onnx_parity.exporter.torch_inside.code_objects import CellType, cells_of, filled_with, with_cells
from onnx_parity.exporter.torch_inside.tensors import buffers_of, parameters_of

__all__ = ["Weights", "copied", "copied_tensor"]

#: Stands for the value of a variable that has not been assigned to.
_EMPTY: Any = object()
#: Most attributes of a module are of these types, which have no copies.
_PLAIN = frozenset({bool, int, float, str, type(None)})
_Program = TypeVar("_Program", bound=Callable[..., Any])


class Weights:
    """The floating parameters and buffers of a module in another dtype. Each is converted when it is first needed."""

    def __init__(self, program: object, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._originals = {
            id(tensor): tensor
            for module in (program.modules() if isinstance(program, torch.nn.Module) else ())
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))
            if (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype not in (dtype, dtype.to_complex())
        }
        self._converted: dict[int, torch.Tensor] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of the tensors to convert, before the conversion; 0 if there are none."""
        return sum(tensor.nbytes for tensor in self._originals.values())

    def get(self, tensor: torch.Tensor) -> torch.Tensor:
        """The converted tensor if it is one of the module's weights, and otherwise the tensor itself."""
        original = self._originals.get(id(tensor))
        if original is None:
            return tensor
        if id(tensor) not in self._converted:
            plain = in_width(original.detach(), self.dtype)
            # torch.nn.functional.linear chooses another kernel for tensors that require gradients.
            is_parameter = isinstance(original, torch.nn.Parameter)
            converted = torch.nn.Parameter(plain, original.requires_grad) if is_parameter else plain
            self._converted[id(tensor)] = converted
        return self._converted[id(tensor)]


def copied(program: _Program, weights: Weights | None = None, written: Collection[str] = ()) -> _Program:
    """A copy of a module with these weights, some of which it writes to, to be run in its place. Other programs are
    returned unchanged."""
    if not isinstance(program, torch.nn.Module):
        return program
    own = {id(each) for name, each in program.named_parameters(remove_duplicate=False) if name in written}
    result: _Program = _Copying(weights, own).module(program)
    return result


def copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of the tensor. `torch.clone` would make it contiguous, which `as_strided` can observe."""
    plain = tensor.detach()
    copy = plain.clone()
    if plain.layout is not torch.strided or copy.stride() == plain.stride() or 0 in plain.stride():
        return copy
    return torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device=plain.device).copy_(plain)


def _with_own_data(tensor: torch.Tensor) -> torch.Tensor:
    """A parameter that shares its memory with another, which stays as it is if the new one is given other data."""
    if type(tensor) is not torch.nn.Parameter:
        return tensor
    result = torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
    vars(result).update(vars(tensor))
    return result


class _Copying:
    """The process of copying one module. References to modules of the original become references to their copies.

    Besides modules, everything is copied through which they can be reached: containers, bound methods,
    functools.partial, and functions that close over them, such as a `forward` that was assigned to a module.
    `copy.deepcopy` would also copy datasets and trainers in attributes, and fails for tensors that are not leaves, for
    locks and for generators.
    """

    def __init__(self, weights: Weights | None, written: Set[int]) -> None:
        """With the ids of the parameters that get memory of their own."""
        self._weights, self._written = weights, written
        #: Copies by the identity of the original. The originals are kept alive by the program.
        self._copies: dict[int, Any] = {}
        #: The modules whose parameters and buffers have been copied.
        self._seen: set[torch.nn.Module] = set()

    def module(self, module: torch.nn.Module) -> Any:
        if id(module) in self._copies:
            return self._copies[id(module)]
        if isinstance(module, torch.jit.ScriptModule):
            return self._script(module)
        if module not in self._seen:
            for part in module.modules():
                self._seen.add(part)
                self._tensors_of(part)
        # Created without `__init__` and `__new__` of the class, whose arguments are unknown here.
        result = self._copies[id(module)] = object.__new__(type(module))
        vars(result).update({name: self._value(value) for name, value in vars(module).items()})
        return result

    def _tensors_of(self, module: torch.nn.Module) -> None:
        """Copy parameters and buffers first, since attributes may refer to them, as those of recurrent layers do."""
        if isinstance(module, torch.jit.ScriptModule):
            return
        for parameter in parameters_of(module).values():
            if parameter is not None:
                converted = self._converted(parameter)
                if id(parameter) in self._written:
                    converted = torch.nn.Parameter(copied_tensor(converted), parameter.requires_grad)
                self._copies.setdefault(id(parameter), _with_own_data(converted))
        for buffer in buffers_of(module).values():
            if buffer is not None and id(buffer) not in self._copies:
                self._copies[id(buffer)] = copied_tensor(self._converted(buffer))

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self._weights is None else self._weights.get(tensor)

    def _script(self, module: torch.jit.ScriptModule) -> Any:
        """Copy a scripted module, whose state is not in Python. One that cannot be copied is used itself."""
        try:
            # Recorded for gradients, the copies would have a history, of which torch then warns.
            with torch.no_grad():
                result = copy.deepcopy(module)
        except RuntimeError:
            result = module
        else:
            if self._weights is not None:
                result.to(self._weights.dtype)
        self._copies[id(module)] = result
        return result

    def _value(self, value: Any) -> Any:
        """The copy of a value of the module's attributes."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        known = self._copies.get(id(value))
        if known is not None:
            return known
        if kind is OrderedDict or kind is dict:
            mapping = self._copies[id(value)] = kind()
            if value:  # Nearly all of the dozen dicts of a module are empty.
                mapping.update((self._value(key), self._value(item)) for key, item in value.items())
            return mapping
        if isinstance(value, torch.nn.Module):
            return self.module(value)
        if isinstance(value, torch.Tensor):
            result = self._copies[id(value)] = copied_tensor(value)
            return result
        if kind is list:
            items: list[Any] = []
            self._copies[id(value)] = items
            items.extend(map(self._value, value))
            return items
        if kind is tuple or kind is set:
            return kind(map(self._value, value))
        return self._callable(value)

    def _callable(self, value: Any) -> Any:
        """A function through which modules can be reached, changed to reach their copies; other values unchanged."""
        if isinstance(value, MethodType) and isinstance(value.__self__, torch.nn.Module):
            return MethodType(value.__func__, self.module(value.__self__))
        if type(value) is partial:
            return partial(
                self._callable(value.func),
                *map(self._module_or_callable, value.args),
                **{name: self._module_or_callable(item) for name, item in value.keywords.items()},
            )
        if isinstance(value, FunctionType) and (closure := cells_of(value)):
            known = self._copies.get(id(value))
            return self._function(value, closure) if known is None else known
        return value

    def _module_or_callable(self, value: Any) -> Any:
        """A value that a function closes over. Lists and tensors are not copied: users may collect results in them."""
        return self.module(value) if isinstance(value, torch.nn.Module) else self._callable(value)

    def _function(self, function: FunctionType, closure: tuple[CellType, ...]) -> FunctionType:
        # A function may close over itself.
        self._copies[id(function)] = function
        held = [filled_with(cell, _EMPTY) for cell in closure]
        copies = [value if value is _EMPTY else self._module_or_callable(value) for value in held]
        if all(map(is_, copies, held)):
            return function
        cells = [old if new is _EMPTY else CellType(new) for old, new in zip(closure, copies, strict=True)]
        result = with_cells(function, cells)
        self._copies[id(function)] = result
        return result
