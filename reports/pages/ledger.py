"""The ledger of findings as texts for the page of findings."""

from __future__ import annotations

from pathlib import Path

import msgspec

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.search.ledger import FILE, SCRIPT, FindingError, read


def read_ledger(folder: Path) -> list[dict[str, str]]:
    """The fields of every finding as texts, its name first, and under `text` its script; none if there is no ledger.
    A finding that cannot be read has the reason in the place of its script."""
    return [_finding(file.parent) for file in sorted(folder.glob(f"*/{FILE}"))]


def _finding(folder: Path) -> dict[str, str]:
    found = {"name": markup_text(folder.name)}
    try:
        described = msgspec.to_builtins(read(folder))
    except (OSError, FindingError) as error:
        return found | {"title": "cannot be read", "text": markup_text(str(error))}
    found |= {key: words for key, value in described.items() if (words := _in_words(value))}
    script = folder / SCRIPT
    if script.is_file():
        found["text"] = markup_text(script.read_text(encoding="utf-8", errors="replace"))
    return found


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, dict):
        return ", ".join(f"{markup_text(str(key))} {_in_words(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    return markup_text(str(value))
