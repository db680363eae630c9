"""A test that takes little memory: a run of the full tier has more than a million of them in each process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from _pytest.mark.structures import NodeKeywords

__all__ = ["SmallItem"]

#: What pytest keeps for each test, and hardly ever reads. Together they are a third of the memory of a cell.
_MADE_WHEN_ASKED: dict[str, Callable[[pytest.Item], Any]] = {
    "keywords": NodeKeywords,
    "extra_keyword_matches": lambda item: set(),
    "own_markers": lambda item: [],
    "user_properties": lambda item: [],
    "_report_sections": lambda item: [],
}


class SmallItem(pytest.Item):
    """A test whose keywords, markers and further properties are made when they are asked for."""

    def __init__(self, **node: Any) -> None:
        super().__init__(**node)
        for name in _MADE_WHEN_ASKED:
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_WHEN_ASKED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        made = _MADE_WHEN_ASKED[name](self)
        setattr(self, name, made)
        return made
