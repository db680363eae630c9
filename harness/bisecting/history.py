"""From which release to which a defect is there, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

__all__ = ["BUNDLE", "History", "add_history", "histories_of", "words_of"]

#: What describes a bundle; exporter/verification/bundle.py writes it.
BUNDLE = "bundle.json"


class History(msgspec.Struct, frozen=True, omit_defaults=True):
    #: The first release that has it; what stands before it, such as `at least`, says how sure that is.
    since: str = ""
    #: The first release without it.
    fixed_in: str = ""

    @property
    def words(self) -> str:
        """As an issue says it: `since 1.29.0, gone in 1.31.0`."""
        return self.of("")

    def of(self, distribution: str) -> str:
        """The same, with the name of the distribution before the releases."""
        name = f"{distribution} " if distribution else ""
        parts = (self.since and f"since {name}{self.since}", self.fixed_in and f"gone in {name}{self.fixed_in}")
        return ", ".join(part for part in parts if part)


def histories_of(bundle: Path) -> dict[str, History]:
    """What is known of a bundle, by distribution; nothing of a folder that is none."""
    path = bundle / BUNDLE
    if not path.exists():
        return {}
    return msgspec.convert(json.loads(path.read_bytes()).get("history", {}), dict[str, History])


def add_history(bundle: Path, distribution: str, history: History) -> None:
    path = bundle / BUNDLE
    description = json.loads(path.read_bytes())
    description.setdefault("history", {})[distribution] = msgspec.to_builtins(history)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(description)))


def words_of(histories: Mapping[str, History]) -> str:
    """`since onnxruntime 1.29.0, gone in onnxruntime 1.31.0`."""
    return "; ".join(each.of(distribution) for distribution, each in histories.items() if each.words)
