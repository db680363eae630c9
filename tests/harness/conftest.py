"""Fixtures that several tests of the harness use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.pytester import SysModulesSnapshot

from onnx_parity.exporter.registry import lowerings as registry
from onnx_parity.exporter.registry import rules


@pytest.fixture
def wrong() -> Iterator[Callable[[str, Callable[..., Any]], None]]:
    """Replaces a lowering of the exporter for one test, by another one that is taken to be its own."""
    before: dict[str, dict[int, registry.Lowering]] = {}

    def replace(name: str, function: Callable[..., Any]) -> None:
        rules.load(rules.Aspect.LOWERING, name)
        before[name] = dict(registry._lowerings[name])
        registry._lowerings[name].clear()
        function.__module__ = "onnx_parity.exporter.planted"
        registry._lowerings[name][1] = function

    yield replace
    for name, functions in before.items():
        registry._lowerings[name] = functions


@pytest.fixture
def imports_as_before(tmp_path: Path) -> Iterator[None]:
    """Forgets the modules that a test imports from its folder: those of the next test may have the same names."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """pytest's own, but only modules of its folder are forgotten after a run in this process.

    torch and this project register operators while they are imported, which cannot be done twice.
    """

    def is_installed(name: str) -> bool:
        return not str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(pytester.path))

    def take_snapshot() -> SysModulesSnapshot:
        return SysModulesSnapshot(preserve=is_installed)

    monkeypatch.setattr(pytester, "_Pytester__take_sys_modules_snapshot", take_snapshot)
    monkeypatch.setattr(pytester, "_sys_modules_snapshot", take_snapshot())
    return pytester
