"""Nested tensors of the strided layout, which torch makes of a list: dense tensors that may differ in any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.nested.nested import Nested, Rule, nested_in, refused
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["Strided"]

asks_for_its_caller(__file__)


class Strided(Nested):
    """A nested tensor of the strided layout."""

    __slots__ = ("parts",)

    rules: ClassVar[dict[str, Rule]] = {}
    layout = torch.strided

    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        self.parts = tuple(parts)

    @property
    def ndim(self) -> int:
        return self.parts[0].ndim + 1

    def example(self) -> torch.Tensor:
        return self.parts[0]

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            raise refused("size without an axis, which is another for each part,")
        if dim % self.ndim == 0:
            return len(self.parts)
        return self.parts[0].shape[self.axis(dim, "size")]

    def rows(self) -> Sequence[torch.Tensor]:
        return self.parts

    def axis(self, dim: int, name: str) -> int:
        if dim % self.ndim == 0:
            raise refused("a function along the axis of its parts")
        return dim % self.ndim - 1

    def apply(self, func: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> Strided:
        return self.each(func, self, *args, **kwargs)

    def each(self, func: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> Strided:
        """The results of a function for each part, with the part that belongs to it of each nested argument."""
        count = len(self.parts)
        if any(len(other.parts) != count for other in nested_in(*args, *kwargs.values()) if isinstance(other, Strided)):
            raise refused_here("the program computes with two nested tensors of different numbers of parts")

        def at(index: int, argument: Any) -> Any:
            return argument.parts[index] if isinstance(argument, Strided) else argument

        return Strided(
            [
                func(*(at(index, each) for each in args), **{key: at(index, each) for key, each in kwargs.items()})
                for index in range(count)
            ]
        )

    def pointwise(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if any(isinstance(each, torch.Tensor) and each.ndim for each in (*args, *kwargs.values())):
            name = func.__name__.strip("_")
            raise refused_here(
                f"the program gives {name} a nested tensor of the strided layout and a dense tensor, which have no "
                "shape in common: make the nested one with layout=torch.jagged"
            )
        first = next(each for each in nested_in(*args, *kwargs.values()) if isinstance(each, Strided))
        return first.each(func, *args, **kwargs)
