"""Tells what breaks if torch renames something: `python -m tests.renamed torch.nn.utils.rnn.pad_packed_sequence`.

The name is hidden from the project in another process; torch itself still finds it. Printed are the lines of the
project that name it, whether an export still works, what users are warned of, and which tests of
`exporter/torch_inside/` fail.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

__all__ = ["hide", "lines_that_name"]

_ROOT = Path(__file__).parents[1]
_FOLDERS = ("exporter", "harness", "op_cases", "model_zoo", "benchmarks", "tests", "documents")
_TESTS = ("tests/exporter/torch_inside", "tests/exporter/patches")
_EXPORT = """
import sys, warnings
from tests.renamed import hide
hide(sys.argv[1])
import onnx_parity, torch
program = onnx_parity.export(torch.nn.Linear(3, 2), (torch.zeros(1, 3),), dynamic_shapes=({0: "rows"},))
print("A program is still exported.")
"""
_PYTEST = """
import sys
from tests.renamed import hide
hide(sys.argv[1])
import pytest
sys.exit(pytest.main(sys.argv[2:]))
"""


def hide(name: str) -> None:
    """Hide a name of a module or a class of torch from the project. A class's is hidden from torch as well."""
    owner, attribute = _owner_of(name)
    if isinstance(owner, type):
        setattr(owner, f"{attribute}_renamed", vars(owner)[attribute])
        delattr(owner, attribute)
        return

    class Renamed(type(owner)):  # type: ignore[misc]
        def __getattribute__(self, asked: str) -> Any:
            value = super().__getattribute__(asked)
            if asked not in (attribute, "__dict__") or not _asks_for_the_project():
                return value
            if asked == "__dict__":
                return {each: held for each, held in value.items() if each != attribute}
            raise AttributeError(f"module {owner.__name__!r} has no attribute {attribute!r}")

    owner.__class__ = Renamed


def _asks_for_the_project() -> bool:
    module = sys._getframe(2).f_globals.get("__name__", "")
    return module.partition(".")[0] in ("onnx_parity", "tests", "benchmarks")


def _owner_of(name: str) -> tuple[Any, str]:
    """The module or class that has a qualified name, and the name that it has there."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:-1]:
            owner = getattr(owner, part, None)
        if isinstance(owner, (ModuleType, type)) and parts[-1] in vars(owner):
            return owner, parts[-1]
    raise LookupError(f"nothing is named {name}: give the module or class that has it, and the name, as in torch.chunk")


def lines_that_name(name: str, root: Path = _ROOT) -> list[str]:
    """The lines of the project that have the last part of a name as a word, as `file:line: text`."""
    word = re.compile(rf"\b{re.escape(name.rpartition('.')[2])}\b")
    found = []
    for file in sorted(path for folder in _FOLDERS for path in (root / folder).rglob("*.py")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if word.search(line):
                found.append(f"{file.relative_to(root).as_posix()}:{number}: {line.strip()}")
    return found


def main(
    name: Annotated[str, typer.Argument(help="A name with its module or class: torch.jit.is_tracing.")],
) -> None:
    """Tell what breaks if torch renames something that the exporter uses or replaces."""
    try:
        _owner_of(name)
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None
    print(f"Lines that name {name.rpartition('.')[2]}:")
    print("\n".join(f"  {line}" for line in lines_that_name(name)) or "  none")
    print("\nAn export without it:", flush=True)
    exported = subprocess.run([sys.executable, "-c", _EXPORT, name], cwd=_ROOT, check=False)
    if exported.returncode:
        print("Every export ends with this error: give what replaces it in exporter/torch_inside/.")
        raise typer.Exit(1)
    print("\nTests of what is asked of torch, which take a few minutes:", flush=True)
    words = [sys.executable, "-c", _PYTEST, name, "-q", "--tb=line", "-p", "no:cacheprovider", *_TESTS]
    code = subprocess.run(words, cwd=_ROOT, check=False).returncode
    if code:
        print(f"The tests that failed need {name}, as it is used above: give what replaces it, and run this again.")
    else:
        print(f"No test needs {name}.")
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
