"""The documents at the root: their programs run, their links lead somewhere, their commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
import torch
import torch.nn.functional as F

import onnx_parity
import start
from onnx_parity.exporter.lowering import registry
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.harness.case import Declaration, floats, op

ROOT = Path(start.__file__).parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def programs(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def test_readme_s_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"model": torch.nn.ELU(), "x": torch.rand(2, 3)}
    for program in programs("README.md"):
        exec(program, names)
    assert torch.equal(torch.as_tensor(names["y"]), F.elu(torch.as_tensor(names["x"])))
    opsets = {path.name: onnx.load(path).opset_import[0].version for path in tmp_path.glob("*.onnx")}
    assert opsets == {"model.onnx": 11, "model-9.onnx": 9, "model-13.onnx": 13, "model-18.onnx": 18}


def test_contributing_s_operator_is_right_on_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever lowering the project itself has by now comes back afterwards.
    monkeypatch.setitem(registry._lowerings, "aten::softplus", {})
    operator, case, *_ = programs("CONTRIBUTING.md")
    names: dict[str, object] = {"lowering": onnx_parity.lowering, "Graph": Graph, "Value": Value}
    names |= {"F": F, "op": op, "floats": floats}
    exec(operator, names)
    exec(case, names)
    declaration = names["softplus"]
    assert isinstance(declaration, Declaration)
    x = torch.linspace(-3, 3, 7)
    for each in declaration.cases("softplus"):
        beta, threshold = (float(str(each.arguments[name])) for name in ("beta", "threshold"))
        module = torch.nn.Softplus(beta, threshold)
        for opset in (7, 18):
            torch.testing.assert_close(onnx_parity.export(module, (x,), opset_version=opset)(x), module(x))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / document).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_of_start_py_exist(document: str) -> None:
    commands = re.findall(r"python3 start\.py ([a-z]+)", (ROOT / document).read_text())
    assert set(commands) <= start.COMMANDS.keys()
