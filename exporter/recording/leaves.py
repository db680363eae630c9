"""Leaves: the tensors, numbers and None that a program computes with, and their conversion to tensors of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.conditions import And, Not, Or
from onnx_parity.exporter.expressions.expression import Expression, Truth
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import DTYPES, Holds, Size, Value, same_size
from onnx_parity.exporter.graph.list_primitives import EMPTY_LIST
from onnx_parity.exporter.recording.fakes.layouts import common_strides
from onnx_parity.exporter.recording.recorder import Recorder, unwrapped
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.modes import outside_of_transforms
from onnx_parity.exporter.torch_inside.tensors import identity_of_memory
from onnx_parity.exporter.torch_inside.transforms import Transform, functional_tensor, transforms, with_gradients

__all__ = [
    "EMPTY", "UNSET", "Absent", "Leaf", "Leaves", "is_marked_number", "is_number", "is_number_if_set", "mark_number",
    "same_leaf", "share_memory", "spelled",
]  # fmt: skip

#: A tensor, a number, None, `UNSET`, or any other object, which must not change in a branch or loop.
Leaf = Any
_COMPARISONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "Equal": torch.eq,
    "Unequal": torch.ne,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
}


class Absent(msgspec.Struct, frozen=True):
    """A placeholder for a tensor whose dtype and shape are not known yet."""

    description: str

    def __repr__(self) -> str:
        return self.description


#: The value of a variable in a branch that does not assign to it, if it is not read afterwards.
UNSET = Absent("not set")
#: The stacked items of an empty list.
EMPTY = Absent("an empty list")


class Leaves:
    """Converts between the tensors of the program, which functionalization wraps, and the recorder's fake tensors."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def take(self, tensor: torch.Tensor) -> FakeTensor:
        """The recorder's fake tensor for a tensor of the program."""
        tensor = unwrapped(tensor)
        if isinstance(tensor, FakeTensor) and self.recorder.knows(tensor):
            return tensor
        with outside_of_transforms():
            return self.recorder.constant(tensor)

    def give(self, leaf: Leaf) -> Leaf:
        """A leaf for use by the program. Tensors are wrapped, so that functionalization sees writes to them, and
        autograd that of a program which asks for gradients."""
        if not isinstance(leaf, FakeTensor):
            return leaf
        for transform in transforms():
            if transform.key() == Transform.Functionalize:
                leaf = functional_tensor(leaf, transform.level())
            elif transform.key() == Transform.Grad:
                leaf = with_gradients(leaf, transform.level())
        return leaf

    def value(self, leaf: Leaf) -> Value:
        return self.recorder.value_of(self.tensor(self.settled([leaf])[0]))

    def tensor(self, leaf: Leaf, like: Leaf = None) -> FakeTensor:
        """A leaf as a tensor. An absent one becomes a placeholder with the dtype and rank of `like`."""
        if isinstance(leaf, FakeTensor):
            return leaf
        if isinstance(leaf, Absent):
            return self.tensor(self.anything_like(like, leaf is EMPTY))
        if not is_number(leaf):
            raise self.error(
                f"a variable is {spelled(leaf)} or {spelled(like)}, depending on which branch or iteration has run: "
                "only tensors and numbers can depend on values"
            )
        with self.innermost():
            made = torch.scalar_tensor(leaf, dtype=DTYPES[type(leaf)])
        assert isinstance(made, FakeTensor)
        return made

    def as_tensor(self, leaf: Leaf) -> torch.Tensor:
        """A number as a tensor for use by the program; a tensor of the program as it is."""
        return leaf if isinstance(leaf, torch.Tensor) else self.give(self.tensor(leaf))

    def number(self, tensor: Leaf) -> Any:
        """The number in a tensor of one int, for use as a size or an index; a symbol if it depends on an input."""
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if self.recorder.fakes.symbols is None and self.depends_on_input(tensor):
            raise Reconsider(Decision.SYMBOLS)
        return tensor.item()

    def depends_on_input(self, tensor: torch.Tensor) -> bool:
        return self.recorder.reader.depends_on_input(self.recorder.value_of(self.take(tensor)))

    def truth(self, leaf: Leaf) -> Leaf:
        """A condition as True, False, or a tensor of one bool."""
        if isinstance(leaf, torch.Tensor):
            return leaf if leaf.dtype is torch.bool else leaf != 0
        if not isinstance(leaf, torch.SymBool):
            return bool(leaf)
        return self.over_sizes(leaf.node.expr)

    def of_sizes(self, leaf: Leaf) -> Expression | None:
        """A condition on sizes of inputs as an expression; None for another leaf."""
        if isinstance(leaf, bool):
            return Truth(leaf)
        if not isinstance(leaf, torch.Tensor) or not self.recorder.size_conditions:
            return None
        return self.recorder.size_conditions.get(self.recorder.value_of(self.take(leaf)))

    def over_sizes(self, expression: Expression) -> Leaf:
        """A condition on dynamic sizes, as a tensor that is computed when the model runs."""
        symbols = self.recorder.fakes.symbols
        if symbols is not None and (known := symbols.known_here(expression)) is not None:
            return known
        made = self._over_sizes(expression)
        if isinstance(made, torch.Tensor) and symbols is not None and symbols.is_of_inputs(expression):
            self.recorder.size_conditions[self.recorder.value_of(self.take(made))] = expression
        return made

    def _over_sizes(self, expression: Expression) -> Leaf:
        if isinstance(expression, Truth):
            return expression.plain
        if isinstance(expression, Not):
            return torch.logical_not(self._over_sizes(expression.args[0]))
        if isinstance(expression, And | Or):
            join = torch.logical_and if isinstance(expression, And) else torch.logical_or
            return functools.reduce(join, map(self._over_sizes, expression.args))
        symbols = self.recorder.fakes.symbols
        assert symbols is not None
        one, other = (self.as_tensor(symbols.size_of(side)) for side in expression.args)
        return _COMPARISONS[type(expression).__name__](one, other)

    def new_size(self, like: Size, least: int = 0) -> torch.SymInt:
        """A new symbol for an unknown size with this lower bound."""
        symbols = self.recorder.fakes.symbols
        if symbols is None:
            raise Reconsider(Decision.SYMBOLS)
        return symbols.unknown_size(like, least)

    def stand_in(
        self, dtype: torch.dtype, shape: Sequence[Size], holds: Holds, laid_out_as: Sequence[torch.Tensor]
    ) -> FakeTensor:
        """A stand-in that lies in memory as all of these do. Where they differ, what depends on it is refused."""
        recorder, device = self.recorder, self.take(laid_out_as[0]).device
        if holds is not Holds.TENSOR:
            return recorder.stand_in(dtype, shape, device, holds)
        strides = common_strides(laid_out_as, shape)
        is_clear = strides is not None and not any(map(recorder.unclear_layouts.has, laid_out_as))
        if not is_clear and recorder.fakes.symbols is None:
            raise Reconsider(Decision.SYMBOLS)
        made = recorder.stand_in(dtype, shape, device, strides=strides if is_clear else None)
        if not is_clear:
            recorder.unclear_layouts.add(recorder.value_of(made))
        return made

    def settled(self, leaves: Sequence[Leaf]) -> list[Leaf]:
        return [self.take(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def refuse_any_rank(self, leaf: Leaf) -> None:
        """Refuse to tell the shape of a tensor whose number of axes depends on sizes or values."""
        if self.recorder.open_ranks and isinstance(leaf, torch.Tensor):
            self.recorder.open_ranks.refuse(self.recorder.value_of(self.take(leaf)))

    def innermost(self) -> Any:
        """A context in which operators reach the recorder without functionalization."""
        return outside_of_transforms()

    def error(self, text: str) -> CaptureError:
        return CaptureError(f"{text}{self.recorder.origins.find().in_brackets}")

    def anything_like(self, leaf: Leaf, empty: bool) -> Leaf:
        """A placeholder of the dtype and rank of a leaf, for a variable that is assigned to before it is read."""
        if not isinstance(leaf, torch.Tensor):
            return False if isinstance(leaf, bool) else 0.0 if isinstance(leaf, float) else 0
        holds = self.recorder.value_of(self.take(leaf)).holds
        if holds.is_list:
            made = self.recorder.stand_in(leaf.dtype, tuple(leaf.shape), holds=holds)
            self.recorder.add(EMPTY_LIST, {"dtype": leaf.dtype}, [made])
            return made
        shape: list[Size] = [0, *leaf.shape[1:]] if empty else [*leaf.shape]
        with self.innermost():
            return torch.zeros([size if isinstance(size, int) else 0 for size in shape], dtype=leaf.dtype)


def is_number(leaf: Leaf) -> bool:
    return type(leaf) in DTYPES


_MARK = "_onnx_parity_number"


def mark_number(tensor: torch.Tensor) -> None:
    """Mark a tensor that is a number in Python, so that the exported program returns it as a number."""
    setattr(tensor, _MARK, True)


def is_marked_number(leaf: Leaf) -> bool:
    return getattr(leaf, _MARK, False) is True


def is_number_if_set(leaf: Leaf) -> bool:
    """Whether a variable is a number of Python, as far as something was assigned to it."""
    return leaf is UNSET or is_number(leaf) or is_marked_number(leaf)


def same_leaf(one: Leaf, other: Leaf) -> bool:
    """Whether two leaves are known to be the same."""
    if one is other:
        return True
    if isinstance(one, torch.SymFloat) and isinstance(other, torch.SymFloat):
        return bool(one.node.expr == other.node.expr)
    if isinstance(one, torch.SymInt) or isinstance(other, torch.SymInt):
        return is_number(one) and is_number(other) and same_size(one, other)
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor) or type(one) is not type(other):
        return False
    return bool(one == other)


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return identity_of_memory(one) == identity_of_memory(other)


def spelled(leaf: Leaf) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"a {str(leaf.dtype).removeprefix('torch.')} tensor of {leaf.ndim} axes"
    return repr(leaf)
