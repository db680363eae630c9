"""`parity localise`, `parity reduce`, `parity repro`: from a cell's id to the cause of its failure."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from typer.testing import CliRunner

from onnx_parity.exporter.arrays import Fed
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.harness.axes import Device
from onnx_parity.harness.bisecting.history import History, add_history
from onnx_parity.harness.cli import app
from onnx_parity.harness.judging.bundle import slug
from onnx_parity.harness.judging.issue import tracker_of
from onnx_parity.harness.subjects.runtime_interface import Session
from onnx_parity.harness.subjects.runtimes import OnnxRuntime

_CASES = """
import torch
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

gated = op(lambda x, slope: F.hardsigmoid(x * slope).exp(), floats(2, 3), slope=[1.5, 2.0])
"""
#: A lowering that a user registers, and that is wrong.
_OWN = """
import torch
import onnx_parity
from onnx_parity.harness.case import floats, op

@torch.library.custom_op("owned::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x

@twice.register_fake
def _(x):
    return torch.empty_like(x)

@onnx_parity.lowering("owned::twice")
def lower_twice(g, x):
    return g.op("Mul", x, x)

doubled = op(torch.ops.owned.twice, floats(2, 3))
exponential = op(lambda x: torch.ops.owned.twice(x).exp(), floats(2, 3))
"""
_OWN_CELL = "exponential-float32-opset13-cpu-trace-onnxruntime"
_CELL = "gated[slope=1.5]-float32-opset13-cpu-trace-onnxruntime"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A clone with one file of declarations, in a package that no other test has imported."""
    package = f"cases_{abs(hash(request.node.name))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    (tmp_path / package / "some.py").write_text(_CASES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f"[tool.parity]\ndeclarations = ['{package}']\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def faulty(project: Path, wrong: Callable[[str, Callable[..., Value]], None]) -> Path:
    def hard_sigmoid(g: Graph, self: Value) -> Value:
        return g.op("HardSigmoid", self)

    wrong("aten::hardsigmoid", hard_sigmoid)
    return project


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_localise_names_the_operator_and_its_line(faulty: Path) -> None:
    code, text = invoke("localise", _CELL)
    assert code == 0
    lines = text.splitlines()
    assert lines[0].startswith(f"{_CELL}: 3 operators, declared at ")
    assert lines[-5].startswith("first divergence: aten::hardsigmoid, ")
    assert lines[-5].endswith("some.py:6")
    assert lines[-3] == "given torch's own values it is still wrong: its export, or the runtime's kernel for it, is"
    assert re.fullmatch(r"lowering: harness/commands/.*\.py:\d+ in \w+", lines[-2])
    assert lines[-1] == "blame: exporter: onnx.reference agrees with onnxruntime, so the graph is wrong"


def test_localise_speaks_json(faulty: Path) -> None:
    code, text = invoke("localise", f"some.py::gated::{_CELL}", "--json")
    found = json.loads(text)
    assert (code, found["first"]["operator"], found["first"]["number"]) == (0, "aten::hardsigmoid", 1)
    assert found["first"]["metrics"]["headroom"] < 1
    assert found["alone"]["passed"] is False


def test_reduce_leaves_a_folder_that_runs_alone(faulty: Path) -> None:
    code, text = invoke("reduce", _CELL)
    assert code == 0
    lines = text.splitlines()
    assert lines[:2] == [f"{_CELL}: 3 operators, reduced to 1", "  aten.hardsigmoid.default"]
    folder = f"reduced/{slug(_CELL)}"
    assert lines[-2:] == [f"source: {folder}/program.py", f"to reproduce: python {folder}/repro.py"]
    done = subprocess.run(
        [sys.executable, "-I", f"{folder}/repro.py"], cwd=faulty, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.startswith(f"reduced from {_CELL}: 1 of 3 operators\n")
    assert json.loads(invoke("reduce", _CELL, "--json")[1])["operators"] == ["aten.hardsigmoid.default"]


def test_repro_writes_the_bundle_of_any_cell(faulty: Path, project: Path) -> None:
    code, text = invoke("repro", _CELL, "--out", "here")
    assert code == 1
    assert text.startswith(f"{_CELL}: failed at compare\n  output 0 at (")
    assert text.splitlines()[-2:] == ["bundle: here", "to reproduce: python here/repro.py"]
    assert (faulty / "here" / "model.onnx").exists()
    record = json.loads(invoke("repro", _CELL, "--json")[1])["record"]
    assert (record["cell"], record["status"], record["blame"]) == (_CELL, "failed", "exporter")


def test_repro_writes_the_text_of_an_issue(faulty: Path) -> None:
    """The exporter is to blame, whose tracker is not known: the files of the bundle go with the text."""
    code, text = invoke("repro", _CELL, "--issue", "--out", "here")
    title, defect, begin, *_ = text.split("\n\n")
    assert (code, title) == (1, "# parity computes a wrong result of Exp, HardSigmoid, Mul (float32, opset 13)")
    assert defect.splitlines()[-2].startswith("It is the export of gated[slope=1.5] (")
    assert defect.splitlines()[-1] == "The script reads files of the folder here, which is attached."
    assert begin == "To reproduce:"
    assert (faulty / "here" / "repro.py").read_text().rstrip() in text
    add_history(faulty / "here", "onnxruntime", History("1.29.0", "1.31.0"))
    told = json.loads(invoke("repro", _CELL, "--issue", "--json", "--out", "here")[1])
    assert told["issue"].endswith("It is there since onnxruntime 1.29.0, gone in onnxruntime 1.31.0.\n")
    assert told["tracker"] == ""


def test_a_lowering_of_ones_own_is_to_blame_for_itself(project: Path) -> None:
    (package,) = project.glob("cases_*")
    (package / "some.py").write_text(_OWN)
    code, text = invoke("localise", _OWN_CELL)
    lines = text.splitlines()
    own = f"{package / 'some.py'}:14 in lower_twice"
    assert code == 0
    assert lines[-5].startswith("first divergence: owned::twice, ") and lines[-5].endswith("some.py:19")
    assert lines[-2:] == [
        f"lowering: {own}",
        "blame: your own lowering: onnx.reference agrees with onnxruntime, so the graph is wrong",
    ]
    told = json.loads(invoke("repro", _OWN_CELL, "--issue", "--json", "--out", "here")[1])
    title, defect, *_ = told["issue"].split("\n\n")
    assert title == "# lower_twice computes a wrong result of Exp, Mul (float32, opset 13)"
    assert f"by parity, with the lowering {own}." in defect
    assert told["tracker"] == ""
    assert "2 operators, of which owned::twice has your own lowering, " in told["issue"]
    # An operator that is called by the harness is called by its declaration.
    (line,) = [
        each
        for each in invoke("localise", _OWN_CELL.replace("exponential", "doubled"))[1].splitlines()
        if each.startswith("first")
    ]
    assert line == f"first divergence: owned::twice, {package / 'some.py'}:18"
    assert invoke("repro", _OWN_CELL, "--issue", "--out", "here")[1].endswith(f"mend it: {own}, your own lowering\n")


def test_the_issue_of_a_small_model_is_a_script_of_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime is wrong here, for which it has to be told that something else is right."""
    run = OnnxRuntime.load

    class Negated:
        def __init__(self, session: Session) -> None:
            self.session = session

        def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
            return [-np.asarray(each) for each in self.session.run(feeds)]

    def load(self: OnnxRuntime, model: bytes | Path, device: Device) -> Session:
        session = run(self, model, device)
        return session if self.level else Negated(session)

    monkeypatch.setattr(OnnxRuntime, "load", load)
    told = json.loads(invoke("repro", _CELL, "--issue", "--json")[1])
    assert (told["record"]["blame"], told["tracker"]) == ("runtime", "https://github.com/microsoft/onnxruntime/issues")
    # Without the fault that is planted here, the script of one file is right, so that the text has that of the bundle.
    assert "which is attached" in told["issue"] and "It holds." in told["issue"]
    assert f"onnxruntime {onnxruntime.__version__}" in told["issue"]


@pytest.mark.parametrize(
    ("culprit", "tracker"),
    [
        ("onnxruntime:none", "https://github.com/microsoft/onnxruntime/issues"),
        ("onnx.reference", "https://github.com/onnx/onnx/issues"),
        ("torch_dynamo", "https://github.com/pytorch/pytorch/issues"),
        ("openvino", "https://github.com/openvinotoolkit/openvino/issues"),
        ("onnxslim", "https://github.com/inisis/OnnxSlim/issues"),
        ("onnxscript:optimize", "https://github.com/microsoft/onnxscript/issues"),
        ("mine:to_onnx", ""),
    ],
)
def test_each_culprit_has_its_tracker(culprit: str, tracker: str) -> None:
    assert tracker_of(culprit) == tracker


def test_nothing_that_stands_in_a_folder_is_lost(faulty: Path) -> None:
    (faulty / "mine").mkdir()
    (faulty / "mine" / "thesis.tex").write_text("everything")
    for command in ("repro", "reduce"):
        assert invoke(command, _CELL, "--out", "mine") == (
            2,
            "mine contains something other than a bundle: give a folder that is empty or does not exist yet.\n",
        )
    assert (faulty / "mine" / "thesis.tex").read_text() == "everything"


def test_a_cell_whose_runtime_is_missing_is_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnnxRuntime, "missing", lambda self, device: "it is not installed")
    for command in ("repro", "localise", "reduce"):
        assert invoke(command, _CELL) == (2, f"{_CELL} is absent at build: it is not installed\n")
    assert not (project / "repro").exists()


def test_a_cell_that_passes_is_reported(project: Path) -> None:
    assert invoke("localise", _CELL) == (2, f"{_CELL} passes: there is nothing to localise or reduce.\n")
    code, text = invoke("repro", _CELL)
    assert (code, text.splitlines()[0]) == (0, f"{_CELL}: passed at rerun_values")
    assert invoke("repro", _CELL, "--issue") == (2, f"{_CELL}: passed. There is nothing to report.\n")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "other",
            "other is not the id of a cell, such as elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime. "
            "`parity list PATTERN --cells` lists them.",
        ),
        (
            "gated[slope=1.5]-float32-opset18",
            "gated[slope=1.5]-float32-opset18 is not the id of a cell, such as "
            "gated[slope=1.5]-float32-opset18-cpu-trace-onnxruntime. `parity list PATTERN --cells` lists them.",
        ),
        (_CELL.replace("1.5", "1.7"), "there is no case gated[slope=1.7]; the nearest is gated[slope=1.5]."),
        (_CELL.replace("opset13", "opset6"), "there is no opset 6 here, only 7 to 28."),
        (
            _CELL.replace("float32", "int8"),
            "gated[slope=1.5] has no cell int8-opset13-cpu-trace-onnxruntime.",
        ),
        (
            _CELL + "-dynamic",
            "gated[slope=1.5] has no cell float32-opset13-cpu-trace-onnxruntime-dynamic.",
        ),
    ],
)
def test_an_unknown_cell_is_reported_with_the_nearest(project: Path, cell: str, message: str) -> None:
    for command in ("localise", "reduce", "repro"):
        assert invoke(command, cell) == (2, message + "\n")


@pytest.mark.parametrize("command", ["localise", "reduce", "repro"])
def test_help_teaches_by_example(command: str) -> None:
    code, text = invoke(command, "--help")
    assert code == 0
    assert "Examples:" in text
    assert f"parity {command}" in text
