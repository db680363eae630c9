"""Texts that a program only says: it prints them, logs them, or gives them to a check as its message."""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import logging
import warnings
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from onnx_parity.exporter.torch_inside.loops.text_of_code import statement_around

__all__ = ["is_only_said"]

_SAYING = (
    print, warnings.warn, torch._assert, logging.debug, logging.info, logging.warning, logging.error,
    logging.exception, logging.critical, logging.log,
)  # fmt: skip
#: The functions that a text of a text may call: they return what is put into the text.
_WITHIN_TEXTS = frozenset({"len", "list", "repr", "round", "str", "tuple", "type"})
#: Where an expression begins and ends: its lines and columns.
_Place = tuple[int, int, int, int]


def is_only_said(frame: FrameType) -> bool:
    """Whether the text that code makes now is an argument of a call that says it, whose result nothing uses."""
    code = frame.f_code
    path = _path_of_callee(code, frame.f_lasti)
    if not path or path[0] in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return False
    held: Any = frame.f_globals.get(path[0], vars(builtins).get(path[0]))
    for name in path[1:]:
        if not isinstance(held, (ModuleType, logging.Logger)):
            return False
        held = getattr(held, name, None)
    return any(held is each for each in _SAYING) or isinstance(getattr(held, "__self__", None), logging.Logger)


@functools.lru_cache(maxsize=256)
def _path_of_callee(code: CodeType, instruction: int) -> tuple[str, ...]:
    """The name of a global and of attributes that are called in a statement, with what an instruction makes as an
    argument, or as a part of a text that is one; nothing if that is not so."""
    place = next(itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    if None in place:
        return ()
    line, end, column, end_column = place
    at: _Place = (line or 0, column or 0, end or 0, end_column or 0)
    tree, _ = statement_around(code.co_filename, at[0])
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _covers(node.value, at):
            call = node.value
            is_made = _place(call) == at or any(_covers(each, at) and _is_text(each) for each in call.args)
            return _path(call.func) if is_made else ()
    return ()


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is a text with parts that nothing else is done with."""
    return isinstance(node, ast.JoinedStr) and not any(
        isinstance(each, (ast.NamedExpr, ast.Await))
        or (isinstance(each, ast.Call) and not (isinstance(each.func, ast.Name) and each.func.id in _WITHIN_TEXTS))
        for each in ast.walk(node)
    )


def _path(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Attribute) and (path := _path(node.value)):
        return (*path, node.attr)
    return (node.id,) if isinstance(node, ast.Name) else ()


def _place(node: ast.expr) -> _Place:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _covers(node: ast.expr, at: _Place) -> bool:
    begin_line, begin, end_line, end = _place(node)
    return (begin_line, begin) <= at[:2] and at[2:] <= (end_line, end)
