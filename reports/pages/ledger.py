"""The ledger of findings: a folder with a folder for each finding, which `finding.toml` describes."""

from __future__ import annotations

import tomllib
from pathlib import Path

from onnx_parity.harness.escaping import markup_text

_DESCRIPTION, _SCRIPT = "finding.toml", "script.py"


def read_ledger(folder: Path) -> list[dict[str, str]]:
    """The fields of every finding as texts, its name first, and under `text` its script; none if there is no ledger."""
    return [_finding(file) for file in sorted(folder.glob(f"*/{_DESCRIPTION}"))]


def _finding(file: Path) -> dict[str, str]:
    found = {"name": markup_text(file.parent.name)}
    try:
        described = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return found | {"text": markup_text(f"{file.name} cannot be read: {error}")}
    found |= {markup_text(key): _in_words(value) for key, value in described.items()}
    script = file.with_name(_SCRIPT)
    if script.is_file():
        found["text"] = markup_text(script.read_text(encoding="utf-8", errors="replace"))
    return found


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_in_words(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    return markup_text(str(value))
