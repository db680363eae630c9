"""Notes which statements of the exporter run, and under which conditions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType

from benchmarks.mutants.codes import Functions, compiled, place_of
from benchmarks.mutants.conditions import own_parameters, places_met, told
from benchmarks.mutants.sites import functions_of, is_docstring, takes_what_is_done

__all__ = ["noting", "watch"]

#: The name of the set in the globals of watched functions.
_NOTED = "__statements_that_ran__"
#: The name of what says under which conditions a statement runs.
_MET = "__places_met__"


def watch(files: Mapping[str, Path], functions: Functions, *, with_conditions: Collection[str] = ()) -> set[str]:
    """Let the functions of these files note which of their statements are run, in a set that this returns; in some of
    the files also under which conditions."""
    noted: set[str] = set()
    codes = {str(path): noting(path, name, with_conditions=name in with_conditions) for name, path in files.items()}
    for (file, _), them in functions.items():
        for each in them if file in codes else ():
            each.__globals__.update({_NOTED: noted, _MET: places_met})
            code = codes[file].get(place_of(each.__code__))
            # A function of other variables of functions around it is one that a decorator has made.
            if code is not None and code.co_freevars == each.__code__.co_freevars:
                each.__code__ = code
    return noted


@cache
def noting(path: Path, name: str, *, with_conditions: bool) -> dict[tuple[str, int], CodeType]:
    """The code of a file's functions that notes its statements. To make it takes long, so that a process that copies
    itself makes it first."""
    tree = ast.parse(path.read_text("utf-8"))
    parameters = own_parameters(tree) if with_conditions else {}
    # Elsewhere no fault holds under a condition, and to ask takes long.
    asked = {
        node
        for _, function in (functions_of(tree) if with_conditions else ())
        for node in (ast.walk(function) if takes_what_is_done(function, name) else ())
    }
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and not isinstance(node, ast.Module | ast.ClassDef):
                given = told(parameters.get(node, ())) if node in asked else None
                setattr(node, field, [each for statement in block for each in _noting(statement, name, given)])
    return compiled(tree, path)


def _noting(statement: ast.AST, name: str, given: str | None) -> Iterator[ast.AST]:
    if isinstance(statement, ast.stmt) and not is_docstring(statement):
        place = f"{name}:{statement.lineno}"
        added = f"add({place!r})" if given is None else f"update({_MET}({place!r}{given}))"
        note = ast.parse(f"{_NOTED}.{added}").body[0]
        yield ast.copy_location(note, statement)
    yield statement
