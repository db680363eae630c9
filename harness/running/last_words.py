"""What a process wrote to its standard error before it ended: the part that a reader wants."""

from __future__ import annotations

from pathlib import Path

#: How faulthandler begins, and what it writes below the stack: the names of all modules that are not Python.
_STACK = ("Fatal Python error", "Current thread")
_BELOW_THE_STACK = "Extension modules:"
#: Lines before the stack, and of it. Its innermost frames come first; below them is what runs every cell.
_BEFORE, _FRAMES = 12, 16


def last_words(path: Path) -> list[str]:
    """The last lines of the file, and where the process was if it could still say so."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    begins = next((number for number, line in enumerate(lines) if line.startswith(_STACK)), len(lines))
    stack = [line for line in lines[begins:] if line and not line.startswith(_BELOW_THE_STACK)]
    shown = stack[:_FRAMES]
    if len(stack) > len(shown):
        shown.append(f"  ... {len(stack) - len(shown)} frames more")
    return [*lines[max(0, begins - _BEFORE) : begins], *shown]
