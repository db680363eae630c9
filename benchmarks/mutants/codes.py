"""The code of the functions of this process, by the files that it is from, and code that is made of changed files."""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType

__all__ = ["Functions", "NotPlantedError", "compiled", "functions_below", "place_of"]


class NotPlantedError(Exception):
    """The fault cannot be planted in functions that exist already."""


#: The functions of this process, by the file and the qualified name of their code.
Functions = Mapping[tuple[str, str], Collection[FunctionType]]


def functions_below(folder: Path) -> Functions:
    """The functions whose code is from files below a folder."""
    # Those that were frozen for a process to be forked are not told otherwise.
    is_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    found: dict[tuple[str, str], list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{folder}/"):
            found.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
    if is_frozen:
        # Whoever looks for objects afterwards, as an export that fails does, would go through all of these again.
        gc.freeze()
    return found


#: Where a function is in its file. Several have one name: lambdas, and what sets and deletes a property.
_Place = tuple[str, int]


def place_of(code: CodeType) -> _Place:
    return code.co_qualname, code.co_firstlineno


def compiled(tree: ast.Module, path: Path) -> dict[_Place, CodeType]:
    """The code of a file's functions. Lambdas that stand in one line are left out."""
    try:
        code = compile(ast.fix_missing_locations(tree), str(path), "exec")
    except (SyntaxError, TypeError, ValueError) as error:
        # A pattern of `match`, for example, takes constants only.
        raise NotPlantedError(str(error)) from error
    count = Counter(map(place_of, _codes(code)))
    return {place_of(each): each for each in _codes(code) if count[place_of(each)] == 1}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
