"""The text of a function, found by its code, as a tree that can be changed and compiled again."""

from __future__ import annotations

import ast
import functools
import linecache
import warnings
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import NamedTuple, TypeGuard

__all__ = ["TextOfCode", "compiled", "key_of", "statement_around", "text_of"]

_WITH_NAMES_OF_THEIR_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def key_of(code: CodeType) -> str:
    """What tells the function that has some code from others, also where the code was exchanged."""
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"


class TextOfCode(NamedTuple):
    """The imports of a file with the statement that has a function within it, and the function."""

    tree: ast.Module
    function: ast.FunctionDef | ast.Lambda


def text_of(code: CodeType) -> TextOfCode | None:
    """The text that some code was compiled from. None where it is not known, or is not that of one function alone."""
    tree, imports = statement_around(code.co_filename, code.co_firstlineno)
    functions = [each for each in ast.walk(tree) if _begins(each, code)]
    tree.body[:0] = imports
    return TextOfCode(tree, functions[0]) if len(functions) == 1 and compiled(tree, code) == code else None


def statement_around(file: str, line: int) -> tuple[ast.Module, Sequence[ast.stmt]]:
    """The outermost statement of a file that a line belongs to, and the imports of the file; none if there is none."""
    lines = linecache.getlines(file)
    imports, statements = _parts_of("".join(lines))
    first, last = next((each for each in statements if each[0] <= line <= each[1]), (1, 0))
    tree = ast.parse("".join(lines[first - 1 : last]))
    ast.increment_lineno(tree, first - 1)
    return tree, imports


def compiled(tree: ast.Module, code: CodeType) -> CodeType | None:
    """The code that a function of a file has, where a tree stands in the place of the statement that it is in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # A text is called here.
        waiting = [compile(tree, code.co_filename, "exec", dont_inherit=True)]
    while waiting:
        each = waiting.pop()
        if key_of(each) == key_of(code):
            return each
        waiting += [const for const in each.co_consts if isinstance(const, CodeType)]
    return None


@functools.lru_cache(maxsize=64)
def _parts_of(source: str) -> tuple[Sequence[ast.stmt], Sequence[tuple[int, int]]]:
    """The imports of a file, which decide how the names that they give are looked up, and the lines of its statements.

    Only the statement of a function is compiled: the whole of a library's file takes a tenth of a second.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return (), ()
    found: list[tuple[int, int]] = []
    for each in tree.body:
        first = min([each.lineno, *(one.lineno for one in getattr(each, "decorator_list", ()))])
        if found and first <= found[-1][1]:  # Behind a semicolon.
            first = found.pop()[0]
        found.append((first, each.end_lineno or each.lineno))
    return list(_imports_in(tree)), found


def _imports_in(node: ast.AST) -> Iterator[ast.stmt]:
    """The imports that run with a file, those in its branches among them."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            yield each
        elif isinstance(each, (ast.stmt, ast.ExceptHandler)) and not isinstance(each, _WITH_NAMES_OF_THEIR_OWN):
            yield from _imports_in(each)


def _begins(node: ast.AST, code: CodeType) -> TypeGuard[ast.FunctionDef | ast.Lambda]:
    """Whether a function begins in the line in which that with some code does."""
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return False
    lines = [node.lineno, *(each.lineno for each in node.decorator_list)]
    return min(lines) == code.co_firstlineno
