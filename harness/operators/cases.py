"""The declarations whose source names an operator: found in their files without importing these."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["DeclaredAt", "declarations_naming"]


class DeclaredAt(NamedTuple):
    name: str
    file: Path
    line: int


def declarations_naming(words: Iterable[str], places: Iterable[Path]) -> Iterator[DeclaredAt]:
    """The declarations that name one of the words, or use a function, class or variable of their file that does.

    A word is named as an attribute or a text, because Python's own names may be the same: `max` is not `torch.max`.
    """
    wanted = frozenset(words)
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(wanted)))})\b")
    for place in places:
        for file in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            source = file.read_text("utf-8")
            if pattern.search(source):
                yield from _named_in(file, ast.parse(source), wanted)


def _named_in(file: Path, tree: ast.Module, wanted: frozenset[str]) -> Iterator[DeclaredAt]:
    #: The functions, classes and variables of the file that name one of the words.
    naming: set[str] = set()

    def names_one(node: ast.AST) -> bool:
        return any(_word(each) in (naming if isinstance(each, ast.Name) else wanted) for each in ast.walk(node))

    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and names_one(node):
            naming.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and names_one(node.value):
            name = node.targets[0].id
            if not isinstance(node.value, ast.Call) or name.startswith("_"):
                naming.add(name)
            elif node.value.args and isinstance(node.value.args[0], ast.Dict):
                # One declaration for each key.
                keys = zip(node.value.args[0].keys, node.value.args[0].values, strict=True)
                yield from (
                    DeclaredAt(f"{name}.{_word(key)}", file, key.lineno)
                    for key, value in keys
                    if key is not None and (names_one(key) or names_one(value))
                )
            else:
                yield DeclaredAt(name, file, node.lineno)


def _word(node: ast.AST) -> object:
    """The name of a variable or an attribute, or a whole text."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Constant(value=str(word)):
            return word
    return None
