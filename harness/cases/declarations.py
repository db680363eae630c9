"""Finds declarations, in a module, in a file, or in all files in a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.generators import OF_DECLARATIONS, seeded
from onnx_parity.harness.cases.watching import watch
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.project import files_of, may_declare


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
    for file in files_of(place):
        if wanted is not None and not may_declare(file, wanted):
            continue
        for declared, declaration in declared_in_file(file):
            if wanted is None or wanted(declared):
                yield declared, declaration


def declared_in_file(file: Path) -> Iterator[tuple[str, Declaration]]:
    """The declarations of a file, which is imported, in their order."""
    module = _import_file(file)
    for name, value in vars(module).items():
        if isinstance(value, Declaration) and is_declared(name, value, Path(module.__file__ or "")):
            yield name, value


def _import_file(file: Path) -> ModuleType:
    """The module of a file, by the name that pytest gives it: with the packages that it is in."""
    folder = file.resolve().parent
    names = [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    watch().collects(file.resolve())
    try:
        with seeded(OF_DECLARATIONS):
            module = import_module(".".join(names))
    except DeclarationError:
        raise
    except Exception as error:  # A file of declarations may raise anything.
        raise DeclarationError(explain_unread(file, error)) from error
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise DeclarationError(
            f"{file} cannot be imported: Python finds {module.__file__} by the name {'.'.join(names)}. Rename the "
            f"file, or put an __init__.py into {file.parent}/."
        )
    return module


def explain_unread(file: Path, error: Exception) -> str:
    """The line of a file of declarations that is no Python, or raises an error when it is imported, and which."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = walk_tb(error.__traceback__)
    lines = [number for frame, number in frames if _resolve(Path(frame.f_code.co_filename)) == _resolve(file)]
    return f"{file}:{lines[-1] if lines else 1}: {error_line(error)}"
