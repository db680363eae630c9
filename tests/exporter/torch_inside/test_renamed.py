"""`python -m tests.renamed`: a name of torch is hidden from the project, and from nothing else."""

from __future__ import annotations

import pytest

from tests import renamed
from tests.fresh import run_after_torch


def test_a_name_of_a_module_is_hidden_from_the_project_alone() -> None:
    code = """
import torch
from tests.renamed import hide
hide("torch.jit._trace.is_tracing")
import onnx_parity.exporter
from onnx_parity.exporter.torch_inside import patch
names = {"asked": "torch.jit._trace", "__name__": "onnx_parity.asks", "torch": torch, "vars": vars}
exec("found = hasattr(torch.jit._trace, 'is_tracing'), 'is_tracing' in vars(torch.jit._trace)", names)
print(*names["found"], hasattr(torch.jit._trace, "is_tracing"), torch.jit.is_tracing())
"""
    assert run_after_torch(code).stdout.split() == ["False", "False", "True", "False"]


def test_lines_that_name_it_are_found() -> None:
    found = renamed.lines_that_name("torch.nn.TransformerEncoder.forward")
    assert any(line.startswith("exporter/patches/neural_modules.py:") for line in found)
    assert renamed.lines_that_name("torch." + "_".join(["written", "nowhere"])) == []


@pytest.mark.parametrize("name", ["torch.no_such_name", "torch", "no_such_module.name"])
def test_a_misspelt_name_is_refused(name: str) -> None:
    with pytest.raises(LookupError, match=f"nothing is named {name}"):
        renamed._owner_of(name)
