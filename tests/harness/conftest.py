"""Fixtures that several tests of the harness use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import onnx_parity
from onnx_parity.exporter.lowering import registry


@pytest.fixture
def wrong() -> Iterator[Callable[[str, Callable[..., Any]], None]]:
    """Replaces a lowering for one test."""
    before: dict[str, dict[int, registry.Lowering]] = {}

    def replace(name: str, function: Callable[..., Any]) -> None:
        before[name] = dict(registry._lowerings[name])
        registry._lowerings[name].clear()
        onnx_parity.lowering(name)(function)

    yield replace
    for name, functions in before.items():
        registry._lowerings[name] = functions
