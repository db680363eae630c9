"""Tensors whose class computes operators itself, as the weights of libraries that quantize do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import onnx_parity
from tests.exporter.subjects import assert_agrees

_MOVES = {torch.ops.aten.detach.default, torch.ops.aten.t.default, torch.ops.aten.transpose.int}


class Halved(torch.Tensor):
    """A tensor that holds half of each of its elements, and has no memory of its own."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Halved:
        made: Any = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, strides=held.stride(), device=held.device
        )
        return made  # type: ignore[no-any-return]

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    def whole(self) -> torch.Tensor:
        return self.held * 2

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func in _MOVES:
            return cls(func(args[0].held, *args[1:]))
        if func is torch.ops.aten.cos.default:
            return NotImplemented
        args, kwargs = pytree.tree_map_only(Halved, lambda each: each.whole(), (args, kwargs or {}))
        return func(*args, **kwargs)


class HalvedByWriting(Halved):
    """Makes the tensor in place."""

    def whole(self) -> torch.Tensor:
        made = self.held.clone()
        made[made > 0] *= 2
        made[made < 0] *= 2
        return made


class HalvedOnce(Halved):
    """Changes what it holds, so that each call has another result."""

    def whole(self) -> torch.Tensor:
        return self.held.mul_(2)


class Program(torch.nn.Module):
    def __init__(self, call: Callable[..., Any], kind: type[Halved]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(kind(torch.randn(4, 8)), requires_grad=False)
        self._call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self._call(x, self.weight)


def _written(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    result = x[:, :4].clone()
    result[0] = weight[0, 4:]
    return result.mul_(weight.sum())


def _added_to_a_copy(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    moved = (weight + 0).clone()
    return moved + x[0]


_CALLS: dict[str, Callable[..., Any]] = {
    "linear": torch.nn.functional.linear,
    "linear of three axes": lambda x, weight: torch.nn.functional.linear(x[None], weight),
    "product": lambda x, weight: x @ weight.t(),
    "sum": lambda x, weight: x[0] + weight,
    "attribute data": lambda x, weight: x[0] + weight.data,
    "stack": lambda x, weight: torch.stack([x[:1].expand(4, 8), weight]),
    "number": lambda x, weight: x * weight.sum().item(),
    "question": lambda x, weight: x if weight.sum() > 0 else -x,
    "norm": lambda x, weight: torch.nn.functional.layer_norm(x, (8,), weight[0]),
    "writes": _written,
    "copy": _added_to_a_copy,
}


@pytest.mark.parametrize("kind", [Halved, HalvedByWriting])
@pytest.mark.parametrize("call", _CALLS)
def test_what_the_class_computes_is_exported(call: str, kind: type[Halved]) -> None:
    program = Program(_CALLS[call], kind)
    x = torch.linspace(-1, 1, 24).reshape(3, 8)
    model = onnx_parity.export(program, (x,), dynamic_shapes=({0: "rows"},), verify=True)
    for rows in (1, 2, 7):
        assert_agrees(model, program, torch.randn(rows, 8))


@pytest.mark.parametrize(
    ("call", "kind", "expected"),
    [
        (lambda x, weight: (x, weight), Halved, "a tensor of the class Halved is used as a whole"),
        (lambda x, weight: x + weight.cos(), Halved, "aten::cos is given a tensor of the class Halved, which does not"),
        (lambda x, weight: x @ weight.t(), HalvedOnce, "the program writes in place"),
    ],
    ids=["returned", "not computed", "changed"],
)
def test_refused(call: Callable[..., Any], kind: type[Halved], expected: str) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=expected):
        onnx_parity.export(Program(call, kind), (torch.randn(4, 8),))
