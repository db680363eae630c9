"""Finding declarations: those of a module, and those of all modules in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from onnx_parity.harness.case import Declaration


def declared_in(module: ModuleType) -> Iterator[tuple[str, Declaration]]:
    """The declarations of a module, in their order."""
    for name, value in vars(module).items():
        if isinstance(value, Declaration) and is_declared(name, value, Path(module.__file__ or "")):
            yield name, value


def is_declared(name: str, declaration: Declaration, file: Path) -> bool:
    """Whether this file declares cases by this name: it is public, and not imported from another file."""
    return not name.startswith("_") and declaration.file.resolve() == file.resolve()


def declared_under(directory: Path) -> Iterator[tuple[str, Declaration]]:
    """The declarations of every module of a package directory, such as `op_cases`, imported by its name."""
    for file in sorted(directory.glob("*.py")):
        name = directory.name if file.stem == "__init__" else f"{directory.name}.{file.stem}"
        yield from declared_in(import_module(name))
