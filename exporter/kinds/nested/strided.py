"""Nested tensors of the strided layout, which torch makes of a list: dense tensors that may differ in any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.nested.nested import Nested, Rule, nested_in, refused
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["Strided"]

asks_for_its_caller(__file__)

_Function = Callable[..., Any]


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
        return self.parts[0].shape[self.axis(dim)]

    def axis(self, dim: int) -> int:
        """An axis of the parts."""
        if dim % self.ndim == 0:
            raise refused("a function along the axis of its parts")
        return dim % self.ndim - 1

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


_strided = Strided.rule


@_strided("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded(func: _Function, nt: Strided, padding: float, output_size: Sequence[Any] | None = None) -> torch.Tensor:
    parts = nt.parts
    if output_size is not None:
        sizes = list(output_size[1:])
    else:
        sizes = [_greatest([part.shape[axis] for part in parts]) for axis in range(parts[0].ndim)]
    # `pad` takes the last axis first.
    return torch.stack(
        [
            F.pad(
                part,
                [amount for axis in reversed(range(part.ndim)) for amount in (0, sizes[axis] - part.shape[axis])],
                value=padding,
            )
            for part in parts
        ]
    )


def _greatest(sizes: Sequence[Any]) -> Any:
    greatest = sizes[0]
    for size in sizes[1:]:
        greatest = torch.sym_max(greatest, size)
    return greatest


@_strided("unbind", "iter")
def _unbind(func: _Function, nt: Strided, dim: int = 0) -> Any:
    if dim != 0:
        raise refused("unbind along another axis than the first")
    return iter(nt.parts) if func.__name__ == "__iter__" else nt.parts


@_strided("values")
def _values(func: _Function, nt: Strided) -> torch.Tensor:
    return torch.cat([part.reshape(-1) for part in nt.parts])


@_strided("numel", "nelement")
def _numel(func: _Function, nt: Strided) -> Any:
    return sum(part.numel() for part in nt.parts)


@_strided("is_contiguous")
def _is_contiguous(func: _Function, nt: Strided) -> bool:
    return True


@_strided("linear")
def _linear(func: _Function, nt: Strided, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Strided:
    return nt.each(F.linear, nt, weight, bias)


@_strided("embedding")
def _embedding(func: _Function, nt: Strided, *args: Any, **options: Any) -> Strided:
    return nt.each(func, nt, *args, **options)


@_strided("layer_norm")
def _layer_norm(func: _Function, nt: Strided, normalized_shape: Sequence[Any], *args: Any, **options: Any) -> Strided:
    return nt.each(func, nt, normalized_shape, *args, **options)


@_strided("softmax")
def _softmax(func: _Function, nt: Strided, dim: int, *_: Any, **options: Any) -> Strided:
    return nt.each(torch.softmax, nt, nt.axis(dim), dtype=options.get("dtype"))


@_strided("sum")
def _sum(func: _Function, nt: Strided, dim: Any, keepdim: bool = False, **options: Any) -> Strided:
    axes = [nt.axis(each) for each in ([dim] if isinstance(dim, int) else dim)]
    return nt.each(torch.sum, nt, axes, keepdim, **options)


@_strided("transpose")
def _transpose(func: _Function, nt: Strided, dim0: int, dim1: int) -> Strided:
    return nt.each(torch.transpose, nt, nt.axis(dim0), nt.axis(dim1))


@_strided("unsqueeze")
def _unsqueeze(func: _Function, nt: Strided, dim: int) -> Strided:
    if dim % (nt.ndim + 1) == 0:
        raise refused("unsqueeze before the axis of its parts")
    return nt.each(torch.unsqueeze, nt, dim % (nt.ndim + 1) - 1)


@_strided("select")
def _select(func: _Function, nt: Strided, dim: int, index: int) -> Any:
    return nt.parts[index] if dim % nt.ndim == 0 else nt.each(torch.select, nt, nt.axis(dim), index)


@_strided("narrow")
def _narrow(func: _Function, nt: Strided, dim: int, start: int, length: int) -> Strided:
    return nt.each(torch.narrow, nt, nt.axis(dim), start, length)


@_strided("getitem")
def _getitem(func: _Function, nt: Strided, items: Any) -> torch.Tensor:
    first, *rest = items if isinstance(items, tuple) else (items,)
    if type(first) is not int:
        raise refused("an index of another kind than the number of a part")
    return nt.parts[first][tuple(rest)] if rest else nt.parts[first]


@_strided("matmul", "bmm")
def _matmul(func: _Function, a: Any, b: Any) -> Strided:
    if not (isinstance(a, Strided) and (isinstance(b, Strided) or b.ndim == 2)):
        raise refused("matmul with a dense tensor of other than two axes")
    return a.each(torch.matmul, a, b)


@_strided("scaled_dot_product_attention")
def _attention(func: _Function, query: Any, key: Any, value: Any, *args: Any, **options: Any) -> Strided:
    if not all(isinstance(each, Strided) for each in (query, key, value)) or args or options.get("attn_mask"):
        raise refused("scaled_dot_product_attention with a mask, or with dense tensors")
    return query.each(F.scaled_dot_product_attention, query, key, value, **options)  # type: ignore[no-any-return]
