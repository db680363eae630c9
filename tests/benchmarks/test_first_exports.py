"""The times of first steps, each of a process of its own."""

from __future__ import annotations

from benchmarks.children import ROOT
from benchmarks.first_exports.__main__ import FLOORS, dynamic_ratio, taken
from benchmarks.first_exports.child import TAKEN


def test_a_step_is_timed_in_a_new_process() -> None:
    assert set(FLOORS) | set(FLOORS.values()) == set(TAKEN)
    assert 0 < taken("import onnx_parity", ROOT) < taken("import torch", ROOT)


def test_the_ratio_of_a_dynamic_export() -> None:
    assert dynamic_ratio("elu") > 0
