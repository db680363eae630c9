"""What statements of a function do, as its text tells: whether they return, leave a loop, or ask something."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = [
    "FUNCTIONS", "LOOPS", "AsStatements", "asks", "begin_with_condition", "breaks", "leaves", "leaves_loop",
    "may_be_structured", "own", "returns",
]  # fmt: skip

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS = (ast.For, ast.While)
_ASKING = (ast.If, ast.IfExp, ast.BoolOp, ast.Not, ast.Match)


class AsStatements(ast.NodeTransformer):
    """Writes a lambda down as a function, in front of the statement that it is in."""

    def __init__(self, wanted: ast.Lambda) -> None:
        returned = ast.copy_location(ast.Return(wanted.body), wanted.body)
        self._wanted = wanted
        self._made = ast.FunctionDef("<lambda>", wanted.args, [returned], [])
        self._made.type_params = []  # type: ignore[attr-defined, unused-ignore]  # From Python 3.12 on.
        ast.copy_location(self._made, wanted)
        self._is_met = self._is_placed = False

    def within(self, tree: ast.Module) -> ast.FunctionDef:
        self.visit(tree)
        return self._made

    def visit(self, node: ast.AST) -> Any:
        if node is self._wanted:
            self._is_met = True
            return ast.copy_location(ast.Constant(None), node)
        visited = super().visit(node)
        if not self._is_met or self._is_placed or not isinstance(visited, ast.stmt):
            return visited
        self._is_placed = True
        return [self._made, visited]


def own(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a statement, without the inner functions of the program."""
    yield node
    if not isinstance(node, FUNCTIONS):
        for each in ast.iter_child_nodes(node):
            yield from own(each)


def may_be_structured(function: ast.FunctionDef) -> bool:
    found = [each for statement in function.body for each in own(statement)]
    ends = [each for node in found if isinstance(node, (ast.Try, ast.TryStar)) for each in node.finalbody]
    is_left = any(isinstance(each, (ast.Return, ast.Break, ast.Continue)) for end in ends for each in own(end))
    others = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
    return not is_left and not any(isinstance(each, others) for each in found)


def returns(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Return) for each in own(node))


def leaves(
    statements: Sequence[ast.stmt], by: tuple[type[ast.stmt], ...] = (ast.Break, ast.Continue, ast.Return)
) -> bool:
    """Whether statements leave the loop around them, or an iteration of it, by one of these."""
    for each in statements:
        if isinstance(each, by) or (ast.Return in by and returns(each)):
            return True
        if isinstance(each, (*FUNCTIONS, *LOOPS)):
            if isinstance(each, LOOPS) and leaves(each.orelse, by):
                return True
        elif any(leaves(inner, by) for inner in _bodies(each)):
            return True
    return False


def breaks(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements leave the loop around them by a `break`."""
    return leaves(statements, (ast.Break,))


def leaves_loop(loop: ast.For | ast.While) -> bool:
    """Whether a loop is left otherwise than at its end."""
    return breaks(loop.body) or returns(loop)


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The lists of statements in one."""
    found = [getattr(statement, name, None) for name in ("body", "orelse", "finalbody")]
    found += [each.body for name in ("handlers", "cases") for each in getattr(statement, name, ())]
    return [each for each in found if each]


def begin_with_condition(loop: ast.While) -> None:
    """Have a `while True` that begins with `if done: return` be a `while not done`, with an `else`."""
    first = loop.body[0]
    always = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    if not always or loop.orelse or not isinstance(first, ast.If) or first.orelse or len(loop.body) < 2:
        return
    *others, last = first.body
    is_inside = any(isinstance(each, (ast.Break, ast.Continue)) for other in others for each in own(other))
    if isinstance(last, (ast.Break, ast.Return)) and not is_inside:
        loop.test = ast.copy_location(ast.UnaryOp(ast.Not(), first.test), first.test)
        loop.orelse = [*others, *([last] if isinstance(last, ast.Return) else [])]
        del loop.body[0]


def asks(statement: ast.stmt) -> bool:
    """Whether a statement asks something itself, apart from the functions that it calls."""
    if isinstance(statement, (*FUNCTIONS, ast.Try, ast.TryStar)):
        return False
    return any(isinstance(each, _ASKING) for each in own(statement))
