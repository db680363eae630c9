"""`parity operator`: how operators are named, and what is told of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

import start
from onnx_parity.exporter.registry.rules import Aspect, Rule, add
from onnx_parity.harness import cli
from onnx_parity.harness.operators.cases import declarations_naming
from onnx_parity.harness.operators.names import UnknownOperatorError, find_operator
from onnx_parity.harness.record import Status
from tests.records import RECORD, write_run

ROOT = Path(start.__file__).parent


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, ["operator", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("aten::narrow", "aten::narrow"),
        ("narrow", "aten::narrow"),
        ("torch.Tensor.narrow", "aten::narrow"),
        ("aten::max.dim", "aten::max.dim"),
        ("torch.ops.aten.max.dim", "aten::max.dim"),
        ("torch.ops.aten.narrow.default", "aten::narrow"),
        ("nn.GLU", "aten::glu"),
        ("nn.LayerNorm", "aten::layer_norm"),
        ("dft", "onnx_parity::dft"),
        ("prim::If", "prim::If"),
    ],
)
def test_an_operator_is_found_by_its_names(text: str, found: str) -> None:
    assert str(find_operator(text)) == found


@pytest.mark.parametrize("text", ["narow", "aten::narow", "torch.narow"])
def test_a_misspelt_name_is_refused_with_similar_ones(text: str) -> None:
    with pytest.raises(UnknownOperatorError, match=f"There is no operator {text}. Similar names: narrow, narrow_copy"):
        find_operator(text)


def test_an_operator_that_torch_takes_apart(tmp_path: Path) -> None:
    text = printed("torch.narrow", "--run", str(write_run(tmp_path, [])))
    assert text.startswith("aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)\n")
    assert "It has no lowering: torch takes it apart into: aten::slice.Tensor. A rule below may replace it" in text
    assert "  exporter/operators/indexing/nested.py:" in text
    assert "    torch.Tensor.narrow: computed from the values and offsets of nested tensors\n" in text
    assert '    pytest op_cases/indexing.py -k "' in text


def test_an_operator_that_is_lowered() -> None:
    told = json.loads(printed("aten::softplus", "--json"))
    assert (told["name"], told["is_lowered"], told["is_taken_apart"]) == ("aten::softplus", True, False)
    [lowering] = [rule for rule in told["rules"] if rule["aspect"] == "lowered to ONNX"]
    file, _, line = lowering["place"].partition(":")
    assert "softplus" in (ROOT / file).read_text().splitlines()[int(line) - 1]
    assert {"softplus"} <= {case["name"] for case in told["cases"]}


@pytest.mark.usefixtures("registry_as_it_was")
def test_a_rule_that_an_export_does_not_find() -> None:
    add(Rule("aten::relu", Aspect.INSTEAD, abs, "for this test"))
    assert "    aten::relu: replaced when the program calls it\n      no export finds it: " in printed("aten::relu")


def test_a_run_says_in_which_opsets_and_dtypes_it_is_right(tmp_path: Path) -> None:
    right = replace(RECORD, aten=("aten::elu",), status=Status.PASSED, dtype="float32")
    records = [
        *(replace(right, cell=f"elu-{opset}", opset=opset) for opset in (7, 8, 13)),
        replace(right, cell="refused", opset=9, status=Status.UNSUPPORTED, reason="no kernel for it"),
        replace(right, cell="other", opset=9, aten=("aten::relu",)),
        replace(right, cell="called", opset=9, aten=("aten::mul",), calls=("torch.nn.ELU",), dtype="float64"),
    ]
    text = printed("nn.ELU", "--run", str(write_run(tmp_path, records)))
    assert "call it, or are recorded with it: 4 passed, 1 unsupported.\n" in text
    assert "  right in onnxruntime in float32 at opsets 7-8, 13\n" in text
    assert "  right in onnxruntime in float64 at opsets 9\n" in text
    assert "  1 refused or failed: no kernel for it\n" in text


def test_declarations_that_use_what_names_an_operator(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def cut(x): return x.narrow(0, 0, 1)\n"
        "def other(x): return max(x)\n"
        "cuts = op(cut, floats(2))\n"
        "others = op(other, floats(2))\n"
        "narrow = op(torch.relu, floats(2))\n"
        "samples = entries({'narrow': ('narrow',), 'relu': ('relu',)})\n"
    )
    found = [(each.name, each.line) for each in declarations_naming(["narrow"], [tmp_path])]
    assert found == [("cuts", 3), ("samples.narrow", 6)]
    assert list(declarations_naming(["max"], [tmp_path])) == []


def test_an_operator_of_ones_own_and_its_lowering(tmp_path: Path) -> None:
    file = tmp_path / "own_cases.py"
    file.write_text(_OWN)
    text = printed("own_operators::twice", str(file))
    assert "It is lowered to ONNX." in text
    assert f"  {file}:10\n    own_operators::twice: lowered to ONNX, your own\n" in text
    assert "own_cases.py:14 doubled" in text
    result = CliRunner().invoke(cli.app, ["operator", "own_operators::thrice", str(file)])
    assert (result.exit_code, "Similar names: " in result.output) == (2, True)


_OWN = """import torch
import onnx_parity
from onnx_parity.harness.case import floats, op

@torch.library.custom_op("own_operators::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x


@onnx_parity.lowering("own_operators::twice")
def lower_twice(g, x):
    return g.op("Add", x, x)

doubled = op(torch.ops.own_operators.twice, floats(2, 3))
"""
