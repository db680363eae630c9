"""The part of a dead process's standard error that explains its end."""

from __future__ import annotations

from pathlib import Path

#: How faulthandler's output begins, and what it writes below the stack: the names of all extension modules.
_STACK = ("Fatal Python error", "Current thread")
_BELOW_THE_STACK = "Extension modules:"
#: The number of lines before the stack, and of its innermost frames, which come first. The others are the harness's.
_BEFORE, _FRAMES = 12, 16


def last_words(path: Path) -> list[str]:
    """The last lines of the file, and the stack of the process if it could still write it."""
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


def error_in(stderr: str) -> str:
    """The first line of the error that a traceback ends with; without a traceback, the last line."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    after_traceback = (line for line in lines[frames[-1] :] if not line.startswith(" ")) if frames else iter(lines[-1:])
    return next(after_traceback, "").strip()
