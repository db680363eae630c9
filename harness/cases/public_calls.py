"""Which public functions of PyTorch a program calls, by the names that its documentation has: `torch.Tensor.add`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

#: Where a function has several names, the first of these places counts.
_PLACES: tuple[tuple[str, ModuleType | type], ...] = (
    ("torch.nn.functional", torch.nn.functional),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
    ("torch", torch),
    ("torch.Tensor", torch.Tensor),
)


class PublicCalls(TorchFunctionMode):
    """Notes the public functions that are called within a block, but not those that they call themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = _names().get(id(func))
        if name is not None:
            self.names[name] = None
        return func(*args, **(kwargs or {}))


def modules_of(module: torch.nn.Module) -> list[str]:
    """The modules of `torch.nn` that a module consists of: `torch.nn.Conv2d`."""
    kinds = dict.fromkeys(type(each) for each in module.modules())
    return [f"torch.nn.{kind.__name__}" for kind in kinds if getattr(torch.nn, kind.__name__, None) is kind]


@cache
def _names() -> Mapping[int, str]:
    """The identity of every public function to its name."""
    found: dict[int, str] = {}
    for place, of in _PLACES:
        for name in dir(of):
            if not name.startswith("_") or (of is torch.Tensor and name.startswith("__")):
                member = getattr(of, name, None)
                if callable(member) and not isinstance(member, type):
                    found.setdefault(id(member), f"{place}.{name}")
    return found
