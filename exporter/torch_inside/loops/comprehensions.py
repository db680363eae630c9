"""Comprehensions that are functions of their own, which are called with what they go over.

Python runs the loop of a comprehension within the function that has it, from 3.12 on, and fills a list that no variable
has. What records loops cannot carry that list, so the comprehension is written down otherwise:

    [row * 2 for row in x if keeps(row)]        comprehended(x, lambda items: [row * 2 for row in items if keeps(row)])

One of two loops becomes two of one loop each.
"""

from __future__ import annotations

import ast

__all__ = ["COMPREHENDED", "separate_comprehensions"]

#: What is called with what a comprehension goes over, and with a function that applies the comprehension to some items.
COMPREHENDED = "onnx_parity: what a comprehension makes of items"
_ITEMS = "items of a comprehension"
#: Functions that look at the variables of the function that calls them.
_OF_THEIR_CALLER = frozenset({"super", "locals", "vars", "dir", "eval", "exec"})


def separate_comprehensions(function: ast.FunctionDef | ast.Lambda) -> None:
    """Write down the comprehensions of a function otherwise, that make lists, but for those that assign or await."""
    _Separate().generic_visit(function)
    ast.fix_missing_locations(function)


class _Separate(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # One of its own.

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        self.generic_visit(node)
        if any(map(_belongs_to_its_function, ast.walk(node))):
            return node
        return self._called(node)

    def _called(self, node: ast.ListComp) -> ast.expr:
        """The comprehension as a call, with a function that is given one item at a time. Of several loops, it makes a
        list of at most one list, by the others."""
        first, *others = node.generators
        made: ast.expr = node
        if others:
            inner = self._called(ast.copy_location(ast.ListComp(node.elt, others), node))
            node.elt, node.generators = inner, [first]
            made = ast.BoolOp(ast.Or(), [node, ast.List([ast.List([], ast.Load())], ast.Load())])
            made = ast.Subscript(made, ast.Constant(0), ast.Load())
        goes_over, first.iter = first.iter, ast.Name(_ITEMS, ast.Load())
        arguments = ast.arguments(posonlyargs=[], args=[ast.arg(_ITEMS)], kwonlyargs=[], kw_defaults=[], defaults=[])
        call = ast.Call(ast.Constant(COMPREHENDED), [goes_over, ast.Lambda(arguments, made)], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def _belongs_to_its_function(node: ast.AST) -> bool:
    """Whether a part of a comprehension does something else in a function of its own."""
    if isinstance(node, ast.comprehension):
        return bool(node.is_async)
    if isinstance(node, ast.Name):
        return node.id in _OF_THEIR_CALLER
    return isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom))
