"""Copies of a module that stand in for it when it is run, so that nothing a run writes or converts reaches the module.

Other threads may call the module meanwhile. Parameters are shared with the copy unless they are wanted in another
dtype: they can be gigabytes, and programs do not write to them. Buffers and tensors in attributes belong to the copy.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, TypeVar

import torch

__all__ = ["Weights", "copied", "copied_tensor"]

_Program = TypeVar("_Program", bound=Callable[..., Any])


class Weights:
    """The floating parameters and buffers of a module in another dtype, converted when they are first asked for."""

    def __init__(self, program: object, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._originals = {
            id(tensor): tensor
            for module in (program.modules() if isinstance(program, torch.nn.Module) else ())
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))
            if tensor.is_floating_point() and tensor.dtype is not dtype
        }
        self._converted: dict[int, torch.Tensor] = {}

    @property
    def nbytes(self) -> int:
        """What they take before they are converted; 0 where there are none to convert."""
        return sum(tensor.nbytes for tensor in self._originals.values())

    def get(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in this dtype if it is one of them, or else itself."""
        original = self._originals.get(id(tensor))
        if original is None:
            return tensor
        if id(tensor) not in self._converted:
            plain = original.detach().to(self.dtype)
            # torch.nn.functional.linear takes another kernel where a gradient may be asked for.
            is_parameter = isinstance(original, torch.nn.Parameter)
            converted = torch.nn.Parameter(plain, original.requires_grad) if is_parameter else plain
            self._converted[id(tensor)] = converted
        return self._converted[id(tensor)]


def copied(program: _Program, weights: Weights | None = None) -> _Program:
    """A module to run in the place of this one, with these weights; anything but a module is returned as it is."""
    if not isinstance(program, torch.nn.Module):
        return program
    result: _Program = _Copying(weights).module(program)
    return result


def copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of the tensor: torch.clone closes gaps in memory, which `as_strided` would see."""
    plain = tensor.detach()
    copy = plain.clone()
    if plain.layout is not torch.strided or copy.stride() == plain.stride() or 0 in plain.stride():
        return copy
    return torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device=plain.device).copy_(plain)


class _Copying:
    """One copy in the making: what refers to a module of the original refers to its copy afterwards.

    Modules are copied, and what may lead to them: containers, bound methods, functools.partial and functions that
    close over them, such as a `forward` that was assigned to a module. `copy.deepcopy` would also copy the datasets and
    trainers that modules hold, and fails at tensors that are no leaves, at locks and at generators.
    """

    def __init__(self, weights: Weights | None) -> None:
        self._weights = weights
        #: Copies by the identity of the original. The originals are kept alive by the program.
        self._copies: dict[int, Any] = {}

    def module(self, module: torch.nn.Module) -> Any:
        if id(module) in self._copies:
            return self._copies[id(module)]
        if isinstance(module, torch.jit.ScriptModule):
            return self._script(module)
        for part in module.modules():
            self._tensors_of(part)
        # Neither __init__ nor __new__ of the class: both take arguments that nobody knows here.
        result = self._copies[id(module)] = object.__new__(type(module))
        vars(result).update({name: self._value(value) for name, value in vars(module).items()})
        return result

    def _tensors_of(self, module: torch.nn.Module) -> None:
        """Parameters and buffers first: attributes may list them again, as those of recurrent layers do."""
        if isinstance(module, torch.jit.ScriptModule):
            return
        for parameter in module._parameters.values():
            if parameter is not None:
                self._copies.setdefault(id(parameter), self._converted(parameter))
        for buffer in module._buffers.values():
            if buffer is not None and id(buffer) not in self._copies:
                self._copies[id(buffer)] = copied_tensor(self._converted(buffer))

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self._weights is None else self._weights.get(tensor)

    def _script(self, module: torch.jit.ScriptModule) -> Any:
        """A compiled module, whose state is not Python's. One that cannot be copied is run itself."""
        try:
            result = copy.deepcopy(module)
        except RuntimeError:
            result = module
        else:
            if self._weights is not None:
                result.to(self._weights.dtype)
        self._copies[id(module)] = result
        return result

    def _value(self, value: Any) -> Any:
        """What the copy has where the module has this value."""
        if id(value) in self._copies:
            return self._copies[id(value)]
        if isinstance(value, torch.nn.Module):
            return self.module(value)
        if isinstance(value, torch.Tensor):
            result = self._copies[id(value)] = copied_tensor(value)
            return result
        if type(value) in (dict, OrderedDict):
            mapping = self._copies[id(value)] = type(value)()
            mapping.update((self._value(key), self._value(item)) for key, item in value.items())
            return mapping
        if type(value) is list:
            items: list[Any] = []
            self._copies[id(value)] = items
            items.extend(map(self._value, value))
            return items
        if type(value) in (tuple, set):
            return type(value)(map(self._value, value))
        return self._callable(value)

    def _callable(self, value: Any) -> Any:
        """A function that leads to modules, as one that leads to their copies; any other value is itself."""
        if isinstance(value, MethodType) and isinstance(value.__self__, torch.nn.Module):
            return MethodType(value.__func__, self.module(value.__self__))
        if type(value) is partial:
            return partial(
                self._callable(value.func),
                *map(self._module_or_callable, value.args),
                **{name: self._module_or_callable(item) for name, item in value.keywords.items()},
            )
        if isinstance(value, FunctionType) and value.__closure__ is not None:
            return self._function(value, value.__closure__)
        return value

    def _module_or_callable(self, value: Any) -> Any:
        """Lists and tensors that a function closes over stay the user's, who may collect results in them."""
        return self.module(value) if isinstance(value, torch.nn.Module) else self._callable(value)

    def _function(self, function: FunctionType, closure: tuple[CellType, ...]) -> FunctionType:
        # A function may close over itself.
        self._copies[id(function)] = function
        cells = [CellType(self._module_or_callable(_content(cell))) if _is_filled(cell) else cell for cell in closure]
        if all(_content(new) is _content(old) for new, old in zip(cells, closure, strict=True) if _is_filled(old)):
            return function
        result = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
        )
        result.__kwdefaults__ = function.__kwdefaults__
        vars(result).update(vars(function))
        self._copies[id(function)] = result
        return result


def _is_filled(cell: CellType) -> bool:
    try:
        _content(cell)
    except ValueError:
        return False
    return True


def _content(cell: CellType) -> Any:
    return cell.cell_contents
