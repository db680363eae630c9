"""Finds declarations, in a module or in all modules in a directory."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from onnx_parity.harness.case import Declaration

#: Statements at the top of a module that may bind a name without an assignment.
_HIDDEN_ASSIGNMENTS = {"exec", "globals", "locals", "setattr", "vars"}


def declared_in(module: ModuleType) -> Iterator[tuple[str, Declaration]]:
    """The declarations of a module, in their order."""
    for name, value in vars(module).items():
        if isinstance(value, Declaration) and is_declared(name, value, Path(module.__file__ or "")):
            yield name, value


def is_declared(name: str, declaration: Declaration, file: Path) -> bool:
    """Whether this file declares cases by this name: the name is public, and not imported from another file."""
    return not name.startswith("_") and declaration.file.resolve() == file.resolve()


def declared_under(directory: Path, wanted: Callable[[str], bool] | None = None) -> Iterator[tuple[str, Declaration]]:
    """The declarations of every module of a package directory, such as `op_cases`, imported by its name.

    If only declarations of certain names are wanted, modules that do not assign such a name are not imported. Those of
    `model_zoo` import torchvision, which takes as long as importing torch.
    """
    for file in sorted(directory.glob("*.py")):
        if wanted is not None and not _may_assign(file, wanted):
            continue
        name = directory.name if file.stem == "__init__" else f"{directory.name}.{file.stem}"
        for declared, declaration in declared_in(import_module(name)):
            if wanted is None or wanted(declared):
                yield declared, declaration


def _may_assign(file: Path, wanted: Callable[[str], bool]) -> bool:
    """Whether a module may assign a wanted name at its top, as far as its source shows."""
    functions_and_classes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    top = [each for each in ast.parse(file.read_bytes()).body if not isinstance(each, functions_and_classes)]
    names = [node for each in top for node in ast.walk(each) if isinstance(node, ast.Name)]
    if any(node.id in _HIDDEN_ASSIGNMENTS for node in names):
        return True
    return any(isinstance(node.ctx, ast.Store) and wanted(node.id) for node in names)
