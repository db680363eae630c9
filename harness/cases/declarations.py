"""Finds declarations, in a module, in a file, or in all files in a folder."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.generators import OF_DECLARATIONS, seeded
from onnx_parity.harness.cases.watching import watch
from onnx_parity.harness.declaration_error import DeclarationError

#: Statements at the top of a module that may bind a name without an assignment.
_HIDDEN_ASSIGNMENTS = {"exec", "globals", "locals", "setattr", "vars"}


def declared_in(module: ModuleType) -> Iterator[tuple[str, Declaration]]:
    """The declarations of a module, in their order."""
    for name, value in vars(module).items():
        if isinstance(value, Declaration) and is_declared(name, value, Path(module.__file__ or "")):
            yield name, value


def is_declared(name: str, declaration: Declaration, file: Path) -> bool:
    """Whether this file declares cases by this name: the name is public, and not imported from another file."""
    return not name.startswith("_") and _resolve(declaration.file) == _resolve(file)


@cache
def _resolve(file: Path) -> Path:
    """The file behind links. To ask the system for it for each of thousands of declarations takes seconds."""
    return file.resolve()


def declared_under(place: Path, wanted: Callable[[str], bool] | None = None) -> Iterator[tuple[str, Declaration]]:
    """The declarations of a file, or of every file in a folder, such as `op_cases`.

    If only declarations of certain names are wanted, modules that do not assign such a name are not imported. Those of
    `model_zoo` import torchvision, which takes as long as importing torch.
    """
    for file in sorted(place.glob("*.py")) if place.is_dir() else [place]:
        if wanted is not None and not _may_assign(file, wanted):
            continue
        for declared, declaration in declared_in(_import_file(file)):
            if wanted is None or wanted(declared):
                yield declared, declaration


def _import_file(file: Path) -> ModuleType:
    """The module of a file, by the name that pytest gives it: with the packages that it is in."""
    folder = file.resolve().parent
    names = [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    watch().declares(file.resolve())
    with seeded(OF_DECLARATIONS):
        module = import_module(".".join(names))
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise DeclarationError(
            f"{file} cannot be imported: Python finds {module.__file__} by the name {'.'.join(names)}. Rename the "
            f"file, or put an __init__.py into {file.parent}/."
        )
    return module


def _may_assign(file: Path, wanted: Callable[[str], bool]) -> bool:
    """Whether a module may assign a wanted name at its top, as far as its source shows."""
    functions_and_classes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    top = [each for each in ast.parse(file.read_bytes()).body if not isinstance(each, functions_and_classes)]
    names = [node for each in top for node in ast.walk(each) if isinstance(node, ast.Name)]
    if any(node.id in _HIDDEN_ASSIGNMENTS for node in names):
        return True
    return any(isinstance(node.ctx, ast.Store) and wanted(node.id) for node in names)
