"""Finding declarations: those of a module, and those of all modules in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from harness.case import Declaration


def declared_in(module: ModuleType) -> Iterator[tuple[str, Declaration]]:
    """The declarations written in a module, in their order; not those that it imports from another."""
    for name, value in vars(module).items():
        if isinstance(value, Declaration) and stands_in(value, Path(module.__file__ or "")):
            yield name, value


def stands_in(declaration: Declaration, file: Path) -> bool:
    return declaration.file.resolve() == file.resolve()


def declared_under(directory: Path) -> Iterator[tuple[str, Declaration]]:
    """The declarations of every module of a package directory, such as `op_cases`, imported by its name."""
    for file in sorted(directory.glob("*.py")):
        name = directory.name if file.stem == "__init__" else f"{directory.name}.{file.stem}"
        yield from declared_in(import_module(name))
