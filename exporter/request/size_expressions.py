"""Sizes that follow from others: an axis with the name "past + sequence" or "min(all - sequence, 7)", and numbers in
objects that are sizes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from onnx_parity.exporter.containers import Opened
from onnx_parity.exporter.request.dynamic_axes import Axes, Named
from onnx_parity.exporter.torch_inside import pytree

__all__ = [
    "AxisSize",
    "evaluated",
    "is_expression",
    "minuend",
    "size_named",
    "with_axis_sizes",
]

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}
#: Functions of two sizes, of which the operands may be symbols.
_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {"min": torch.sym_min, "max": torch.sym_max}


def is_expression(name: str, names: Collection[str]) -> bool:
    """Whether the name of an axis is an expression over the names of other axes, such as "past + sequence".

    A name without any of them, such as "0", is only a name.
    """
    if name.isidentifier():
        return False
    try:
        tree = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return _is_over(tree, names) and any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(tree))


def _is_over(tree: ast.expr, names: Collection[str]) -> bool:
    if isinstance(tree, ast.BinOp):
        return type(tree.op) in _OPERATORS and _is_over(tree.left, names) and _is_over(tree.right, names)
    if isinstance(tree, ast.Call):
        return _is_function(tree) and all(_is_over(each, names) for each in tree.args)
    if isinstance(tree, ast.Name):
        return tree.id in names
    return isinstance(tree, ast.Constant) and type(tree.value) is int


def _is_function(tree: ast.Call) -> bool:
    return isinstance(tree.func, ast.Name) and tree.func.id in _FUNCTIONS and len(tree.args) == 2 and not tree.keywords


def evaluated(expression: str, sizes: Mapping[str, Any]) -> Any:
    """The size that an expression stands for, where the axes that it names have these sizes."""

    def value(tree: ast.expr) -> Any:
        if isinstance(tree, ast.BinOp):
            return _OPERATORS[type(tree.op)](value(tree.left), value(tree.right))
        if isinstance(tree, ast.Call):
            assert isinstance(tree.func, ast.Name)
            return _FUNCTIONS[tree.func.id](*map(value, tree.args))
        return sizes[tree.id] if isinstance(tree, ast.Name) else ast.literal_eval(tree)

    return value(ast.parse(expression, mode="eval").body)


def size_named(axis: str, sizes: Mapping[str, Any]) -> Any:
    """The size of an axis, by its name or by an expression over others."""
    return sizes[axis] if axis in sizes else evaluated(axis, sizes)


def minuend(expression: str) -> str:
    """ "all" of "all - sequence"; nothing of other expressions."""
    whole, minus, _ = expression.partition(" - ")
    return whole if minus and whole.isidentifier() else ""


def _without_limit(expression: str) -> str | None:
    """ "all - sequence" of "min(all - sequence, 7)"; None for other expressions."""
    if not expression.startswith("min("):
        return None
    tree = ast.parse(expression, mode="eval").body
    if not isinstance(tree, ast.Call) or not _is_function(tree):
        return None
    parts = [each for each in tree.args if not isinstance(each, ast.Constant)]
    return ast.unparse(parts[0]) if len(parts) == 1 else None


class AxisSize(int):
    """A number in an object that is the size of a dynamic axis of a tensor beside it: the length that a cache keeps.

    Where the axis has a limit, as in a cache with a sliding window, the number is the size without it: all tokens so
    far, beside an axis "min(all - sequence, 7)".


    While the program is recorded it is that size; the program itself gets it as the int that it is.
    """

    axis: str

    @classmethod
    def of(cls, size: int, axis: str) -> AxisSize:
        made = cls(size)
        made.axis = axis
        return made


def with_axis_sizes(arguments: Any, axes: Axes) -> Any:
    """The arguments with an `AxisSize` in the place of each number in an object that is the size of a dynamic axis."""
    if not any(axes.inputs.values()):
        return arguments
    leaves, spec = pytree.tree_flatten(arguments)
    if not any(type(leaf) is int for leaf in leaves):
        return arguments
    positions = iter(range(len(leaves)))
    sizes: dict[str, int] = {}

    def followed(node: Any) -> Any:
        if isinstance(node, torch.Tensor):
            placed = _Placed(node, axes.inputs.get(next(positions), {}))
            sizes.update({name: node.shape[axis] for axis, name in placed.axes.items()})
            return placed
        return node

    placed = pytree.tree_unflatten([followed(leaf) for leaf in leaves], spec)
    return pytree.tree_map_only(_Placed, lambda leaf: leaf.tensor, _in_objects(placed, sizes))


class _Placed:
    """A tensor among the arguments, with its dynamic axes."""

    def __init__(self, tensor: torch.Tensor, axes: Named) -> None:
        self.tensor = tensor
        self.axes = axes


def _in_objects(tree: Any, sizes: Mapping[str, int]) -> Any:
    leaves, spec = pytree.tree_flatten(tree, is_leaf=lambda node: isinstance(node, Opened))
    return pytree.tree_unflatten(
        [_in_object(leaf, sizes) if isinstance(leaf, Opened) else leaf for leaf in leaves], spec
    )


def _in_object(node: Opened, sizes: Mapping[str, int]) -> Opened:
    found: dict[int, set[str]] = {}
    for held in node.attributes.values():
        if isinstance(held, _Placed):
            for axis, name in held.axes.items():
                whole = _without_limit(name) if is_expression(name, sizes) else None
                size = held.tensor.shape[axis] if whole is None else evaluated(whole, sizes)
                found.setdefault(size, set()).add(whole or name)
    attributes = {}
    for name, held in node.attributes.items():
        # A number that could be the size of several axes is left as it is.
        if type(held) is int and len(found.get(held, ())) == 1:
            (axis_name,) = found[held]
            attributes[name] = AxisSize.of(held, axis_name)
        else:
            attributes[name] = _in_objects(held, sizes)
    return Opened(node.cls, node.number, _in_objects(node.items, sizes), attributes, node.mirrored)
