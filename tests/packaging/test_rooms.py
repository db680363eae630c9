"""Who may know whom: the direction of the imports between the rooms, as docs/architecture.md has it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import start

ROOT = Path(start.__file__).parent

#: What each room may import of the other rooms. A module named here stands for itself and what is below it.
MAY_IMPORT = {
    "exporter": (),
    "harness": ("exporter",),
    "op_cases": ("harness.case", "harness.opinfo"),
    "model_zoo": ("harness.case",),
    "reports": ("harness.record", "harness.store"),
    "benchmarks": ("exporter", "harness.record", "harness.store", "model_zoo.torchvision_import"),
}
#: The command that writes reports is where the rooms meet.
MEETING_PLACE = "harness/commands/report.py"


def imported(source: str) -> Iterator[str]:
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports here are absolute"
            assert node.module
            yield node.module


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def is_below(module: str, parent: str) -> bool:
    return module == parent or module.startswith(f"{parent}.")


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_room_knows_only_whom_it_may(room: str) -> None:
    others = [other for other in MAY_IMPORT if other != room]
    against = [
        (path.relative_to(ROOT).as_posix(), module)
        for path in files(room)
        for module in imported(path.read_text())
        if path != ROOT / MEETING_PLACE
        and any(is_below(module, other) for other in others)
        and not any(is_below(module, allowed) for allowed in MAY_IMPORT[room])
    ]
    assert against == []
    assert files(room), f"there is no {room} to look at"


def test_exporter_leans_on_no_other_exporter() -> None:
    forbidden = ("torch.onnx", "onnxscript")
    assert [
        (path.name, module)
        for path in files("exporter")
        for module in imported(path.read_text())
        if any(is_below(module, each) for each in forbidden)
    ] == []


def test_imports_are_found_wherever_they_stand() -> None:
    assert list(imported("import a.b\ndef f():\n    from c.d import e\n")) == ["a.b", "c.d"]
