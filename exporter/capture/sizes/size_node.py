"""The arithmetic of dynamic sizes, computed once for each expression.

torch computes the same few expressions over and over: for each tensor the number of its elements, its strides, whether
it is contiguous. Each step constructs sympy expressions, which takes 50 us. A `SizeNode` stands behind a `SymInt`, a
`SymFloat` or a `SymBool` like torch's `SymNode`, whose results it keeps by operation and expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx.experimental import sym_node
from torch.fx.experimental.sym_node import SymNode
from torch.utils._sympy import functions

from onnx_parity.exporter.capture.graph.origin import refused_here

if TYPE_CHECKING:
    from onnx_parity.exporter.capture.sizes.shape_env import HintedShapeEnv

__all__ = ["SizeNode", "function_of", "with_text_of_number"]

#: The operations whose result is rounded, if their operands are real numbers.
_ROUNDING = frozenset({"_add", "_sub", "_mul", "_truediv", "_float_truediv", "_int_truediv", "_pow", "_float_pow"})


class Rounded(sympy.Function):  # type: ignore[misc]  # sympy has no types
    """A real number that is an operand of another operation. sympy would merge the two, as 0.1 n and 0.7 n into 0.8 n,
    and the sum be rounded otherwise than Python's."""

    is_real = True
    _torch_handler_name = "identity"

    @classmethod
    def eval(cls, number: sympy.Expr) -> sympy.Expr | None:
        return number if number.is_Number else None


class SizeNode(SymNode):
    """A `SymNode` whose operations are looked up among those of its environment before they are computed."""

    shape_env: HintedShapeEnv

    @classmethod
    def of(cls, node: SymNode) -> SizeNode:
        """The node itself, made a node of this class."""
        node.__class__ = cls
        assert isinstance(node, cls)
        return node

    @property
    def expr(self) -> sympy.Basic:
        # torch also asks sympy whether the expression is a number, which takes as long as the rest of an operation.
        return super().expr if self.shape_env.replacements else self._expr

    def wrap_int(self, num: int) -> SymNode:
        known = self.shape_env.constants.get(num)
        if known is None:
            known = self.shape_env.constants[num] = SizeNode.of(super().wrap_int(num))
        return known


class _NodeOfNumber(SizeNode):
    """A node whose text is that of a number, which fixes the size. The text of others is that of a symbol."""

    def _graph_repr(self) -> str:
        return str(self.guard_int("", 0) if self.pytype is int else self.guard_float("", 0))


def with_text_of_number(number: Any) -> Any:
    """A symbolic number whose text is that of a number, as texts of what `int` and `len` return are."""
    if not isinstance(number, (torch.SymInt, torch.SymFloat)):
        return number
    node = number.node
    made = SymNode(node.expr, node.shape_env, node.pytype, None)
    return type(number)(_NodeOfNumber.of(made))


def function_of(name: str, number: torch.SymInt | torch.SymFloat) -> torch.SymFloat:
    """A function of Python's `math`, such as `sqrt`, of a symbolic number."""
    node = torch.sym_float(number).node
    expression = getattr(functions, f"OpaqueUnaryFn_{name}")(node.expr)
    return torch.SymFloat(SizeNode.of(SymNode(expression, node.shape_env, float, None)))


def _unary(name: str) -> Callable[[SizeNode], SymNode]:
    compute = getattr(SymNode, name)

    def operation(self: SizeNode) -> SymNode:
        return _known(self.shape_env, (name, self._expr, self.pytype), lambda: compute(self))

    return operation


def _binary(name: str) -> Callable[[SizeNode, SymNode], SymNode]:
    compute = getattr(SymNode, name)

    def operation(self: SizeNode, other: SymNode) -> SymNode:
        left: SymNode = self
        if float in (left.pytype, other.pytype):
            if name == "_mod":
                raise refused_here("% of real numbers that are computed from dynamic sizes is not supported")
            if name in _ROUNDING:
                left, other = _rounded(left), _rounded(other)
        key = (name, left._expr, other._expr, left.pytype, other.pytype)
        return _known(self.shape_env, key, lambda: compute(left, other))

    return operation


def _rounded(node: SymNode) -> SymNode:
    expression, environment = node._expr, node.shape_env
    if node.pytype is not float or not isinstance(expression, (sympy.Add, sympy.Mul, sympy.Pow)):
        return node

    def compute() -> SymNode:
        return SymNode(Rounded(expression), environment, float, None)

    return _known(environment, ("rounded", expression), compute)  # type: ignore[arg-type]


def _of_layout(name: str) -> Callable[[SizeNode, Sequence[SymNode], Sequence[SymNode]], SymNode]:
    compute = getattr(SymNode, name)

    def operation(self: SizeNode, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        key = (name, tuple([size._expr for size in sizes]), tuple([stride._expr for stride in strides]))
        return _known(self.shape_env, key, lambda: compute(self, sizes, strides))

    return operation


def _known(environment: HintedShapeEnv, key: Any, compute: Callable[[], SymNode]) -> SymNode:
    if environment.replacements:
        return SizeNode.of(compute())  # The expressions of the key may no longer be those of the nodes.
    known = environment.computed.get(key)
    if known is None:
        known = environment.computed[key] = SizeNode.of(compute())
    return known


_NUMBERS_OF_ARGUMENTS = {"sym_ite": 3, "round": 2}
for _name in sym_node.magic_methods:
    if _name not in _NUMBERS_OF_ARGUMENTS:
        _make = _unary if _name in sym_node.unary_magic_methods else _binary
        _attribute = f"_{_name}_" if _name in ("and", "or") else f"_{_name}"
        setattr(SizeNode, _attribute, _make(_attribute))
for _name in sym_node.sizes_strides_methods:
    setattr(SizeNode, f"_{_name}", _of_layout(f"_{_name}"))
