"""Every benchmark can be imported: those that replace functions by their names name what is there."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks


def test_every_benchmark_can_be_imported() -> None:
    modules = [each.name for each in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
    assert "benchmarks.decisions.planted" in modules
    for module in modules:
        importlib.import_module(module)
