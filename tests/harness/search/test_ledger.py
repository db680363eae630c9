"""The ledger of findings in `findings/`: what each says, and that this exporter exports the programs of all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

import onnx_parity
from onnx_parity.harness.axes import EXPORTER_NAMES, RUNTIME_NAMES, TRANSFORMATION_NAMES
from onnx_parity.harness.search.ledger import SCRIPT, read_findings

ROOT = Path(__file__).parents[3]
LEDGER = ROOT / "findings"
FINDINGS = read_findings(LEDGER)
#: The findings that are defects of other exporters.
OF_EXPORTERS = [name for name, finding in FINDINGS.items() if finding.culprit in EXPORTER_NAMES]
#: How a script names the opset at which the other exporter has the defect.
_OPSET = re.compile(r"opset_version=(\d+)")


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_says_what_is_wrong_and_why(name: str) -> None:
    finding = FINDINGS[name]
    assert finding.culprit in ("torch", "onnx", *EXPORTER_NAMES, *RUNTIME_NAMES, *TRANSFORMATION_NAMES)
    assert finding.fault in ("wrong result", "error", "invalid model", "crash")
    assert finding.read, "a person has to read it before it counts"
    assert finding.defect, "what makes it a defect"
    assert finding.link.startswith("https://")
    assert finding.causes, "by which a search knows it"
    assert finding.prints
    assert {"torch", "onnx", "onnxruntime"} <= set(finding.versions)
    assert len((LEDGER / name / SCRIPT).read_text("utf-8").splitlines()) <= 30


@pytest.mark.parametrize("name", FINDINGS)
def test_what_holds_a_finding_down_exists(name: str) -> None:
    assert FINDINGS[name].held_by
    for held in FINDINGS[name].held_by:
        file, _, declared = held.partition("::")
        text = (ROOT / file).read_text("utf-8")
        assert not declared or re.search(rf"^{re.escape(declared)} = ", text, re.MULTILINE), held


def test_no_two_findings_are_one() -> None:
    told = [(finding.culprit, finding.title) for finding in FINDINGS.values()]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("name", OF_EXPORTERS)
def test_this_exporter_does_not_have_it(name: str) -> None:
    source = (LEDGER / name / SCRIPT).read_text("utf-8")
    wanted = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ARGUMENTS")
    ]
    made: dict[str, object] = {"torch": torch}
    exec(compile("\n\n".join(map(ast.unparse, wanted)), name, "exec"), made)
    program, arguments = made["Program"], made["ARGUMENTS"]
    assert isinstance(program, type)
    assert isinstance(arguments, tuple)
    opset = _OPSET.search(source)
    assert opset is not None
    with torch.no_grad():
        expected = program()(*(each.clone() for each in arguments))
        exported = onnx_parity.export(program(), arguments, opset_version=int(opset[1]))
        got = exported(*arguments)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(got, expected, equal_nan=True)
