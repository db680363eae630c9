"""The index of rules names the file of each rule, and an export imports only the files that it needs."""

from __future__ import annotations

import inspect

import pytest

from documents.index_of_rules import INDEX, index
from tests.fresh import run_after_torch


def test_the_index_names_the_file_of_each_rule() -> None:
    assert INDEX.read_text("utf-8") == index(), "run: python3 start.py index"


@pytest.mark.slow
def test_an_export_imports_the_files_whose_rules_it_needs() -> None:
    code = inspect.cleandoc(
        """
        import sys, onnx_parity, torch
        onnx_parity.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), dynamic_shapes=({0: "n"},))
        package = "onnx_parity.exporter.operators."
        print(*sorted(name.removeprefix(package) for name in sys.modules if name.startswith(package)))
        """
    )
    printed = run_after_torch(code).stdout
    assert printed.split() == ["linear_algebra", "linear_algebra.lowering", "linear_algebra.results"]
