"""Failure bundles: their contents, that they run without the project, and that their size is limited."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import helper

import onnx_parity
from onnx_parity.exporter.verification.repro import script_of
from onnx_parity.harness.axes import PARITY, RUNTIME_NAMES, Dtype
from onnx_parity.harness.case import Declaration, ListOf, floats, listed, model, op
from onnx_parity.harness.judging import bundle
from onnx_parity.harness.judging.bundle import Bundles, Kept, runner_of, slug
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.exporter_interface import Captured, Request
from tests.harness.fakes import FakeExporter, cell, one_node
from tests.records import INFO, RECORD

_ELU = op(F.elu, floats(2, 3))


def kept(
    folder: Path,
    make: Callable[[int, Request], bytes],
    *,
    declaration: Declaration = _ELU,
    dtype: Dtype = Dtype.FLOAT32,
    runtime: str = "onnxruntime",
    bundles: Bundles | None = None,
) -> Kept:
    """The bundle of a cell that fails."""
    found: list[Kept] = []
    at = cell(declaration, dtype=dtype, runtime=runtime)

    def keep(outcome: Outcome) -> None:
        blank = msgspec.structs.replace(RECORD, cell=at.id, nodeid=f"op_cases/some.py::elu::{at.id}")
        found.append((bundles or Bundles(folder, INFO)).keep(outcome.onto(blank), outcome))

    Bench(0, exporters={"parity": FakeExporter(make)}).run(at, keep)
    (only,) = found
    return only


def doubled(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [x * 2 for x in xs]


def tripled(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [x * 3 for x in xs]


def wrong_alpha(opset: int, request: Request) -> bytes:
    return one_node("Elu", opset, alpha=0.5)


def reproduce(folder: Path, tmp_path: Path) -> tuple[int, str]:
    """Run `repro.py` where there is nothing of the project."""
    done = subprocess.run(
        [sys.executable, "-I", str(folder / "repro.py")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_bundle_has_the_model_the_data_and_the_environment(tmp_path: Path) -> None:
    found = kept(tmp_path, wrong_alpha)
    folder = tmp_path / found.folder
    assert found.line == f"bundle: {folder}"
    assert sorted(path.name for path in folder.iterdir()) == [
        "bundle.json", "data.npz", "model.onnx", "repro.py"
    ]  # fmt: skip
    data = np.load(folder / "data.npz")
    assert set(data) == {"input_0", "output_0", "centre_0", "tolerance_0"}
    x, y = (torch.from_numpy(data[name]) for name in ("input_0", "output_0"))
    assert torch.equal(F.elu(x), y)
    described = json.loads((folder / "bundle.json").read_text())
    assert described["environment"]["id"] == INFO.id
    assert 'again:  pytest "op_cases/some.py::elu::case-float32-opset18-cpu-trace-onnxruntime"' in described["title"]


def test_a_bundle_runs_alone_and_still_fails(tmp_path: Path) -> None:
    folder = tmp_path / kept(tmp_path, wrong_alpha).folder
    code, text = reproduce(folder, tmp_path)
    assert code == 1
    assert text.startswith("case-float32-opset18-cpu-trace-onnxruntime\ncompare: output 0 at (")
    assert text.splitlines()[-1].startswith("output 0 at (")
    assert text.splitlines()[-1].endswith(" of 6 elements")


def test_a_bundle_reports_that_the_failure_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / kept(tmp_path, wrong_alpha).folder
    (folder / "model.onnx").write_bytes(one_node("Elu", 18))
    code, text = reproduce(folder, tmp_path)
    assert (code, text.splitlines()[-1]) == (0, "It holds.")


@pytest.mark.parametrize("runtime", ["onnx.reference", "onnxruntime:none", "backend:onnxruntime.backend"])
def test_a_bundle_runs_on_the_runtime_of_its_cell(tmp_path: Path, runtime: str) -> None:
    folder = tmp_path / kept(tmp_path, wrong_alpha, runtime=runtime).folder
    assert json.loads((folder / "bundle.json").read_text())["runtime"] == runtime
    assert reproduce(folder, tmp_path)[0] == 1


def test_bfloat16_goes_into_a_bundle_and_out_of_it(tmp_path: Path) -> None:
    def negated(opset: int, request: Request) -> bytes:
        ends = [helper.make_tensor_value_info(name, onnx.TensorProto.BFLOAT16, (2, 3)) for name in "xy"]
        nodes = [helper.make_node("Identity", ["x"], ["y"])]
        graph = helper.make_graph(nodes, "fake", ends[:1], ends[1:])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return bytes(made.SerializeToString())

    declaration = op(torch.neg, floats(2, 3), dtypes=[torch.bfloat16])
    folder = tmp_path / kept(tmp_path, negated, declaration=declaration, dtype=Dtype.BFLOAT16).folder
    code, text = reproduce(folder, tmp_path)
    assert (code, text.splitlines()[-1][-17:]) == (1, "; 6 of 6 elements")


def test_a_list_goes_into_a_bundle_and_out_of_it(tmp_path: Path) -> None:
    """Its tensors differ in size; what comes out is compared item by item."""

    def exported(opset: int, request: Request) -> bytes:
        program = onnx_parity.export(
            torch.jit.script(tripled),
            request.inputs,
            dynamic_axes=request.dynamic,
            opset_version=18,
            input_names=["x"],
        )
        return program.serialize()

    declaration = op(torch.jit.script(doubled), listed(floats(2, 3), floats(4, 3)), dynamic={"x": ListOf({0: "rows"})})
    folder = tmp_path / kept(tmp_path, exported, declaration=declaration).folder
    code, text = reproduce(folder, tmp_path)
    assert code == 1
    assert [line.split(" at ")[0] for line in text.splitlines()[-2:]] == ["output 0", "output 1"]


def test_a_failed_export_has_no_model_and_the_command_to_repeat_it(tmp_path: Path) -> None:
    def raises(opset: int, request: Request) -> bytes:
        raise IndexError("off by one")

    folder = tmp_path / kept(tmp_path, raises).folder
    assert not (folder / "model.onnx").exists()
    assert "input_0" in np.load(folder / "data.npz")
    code, text = reproduce(folder, tmp_path)
    assert code != 0
    assert "export: IndexError: off by one" in text
    assert "There is no model. In the folder of the declarations, this exports it again:" in text


class _Halved:
    """Halves the weight, which lies in a file of its own, and restores it."""

    name = PARITY
    operators: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.request: Request

    def missing(self) -> str:
        return ""

    def refusal(self, error: Exception) -> str:
        return ""

    def capture(self, request: Request) -> Captured:
        self.request = request
        return self

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        assert folder is not None
        module, path = self.request.module, folder / "model.onnx"
        assert isinstance(module, torch.nn.Linear)
        with torch.no_grad():
            module.weight.mul_(0.5)
            onnx_parity.export(
                module, self.request.inputs, path, input_names=["x"], opset_version=opset, external_data=True
            )
            module.weight.mul_(2)
        return path


def test_weights_in_a_file_of_their_own_are_in_the_bundle(tmp_path: Path) -> None:
    """They live in a folder that is gone when the cell is over."""
    found: list[Kept] = []
    at = cell(model(torch.nn.Linear, floats(1, 2500), in_features=2500, out_features=2000))

    def keep(outcome: Outcome) -> None:
        found.append(Bundles(tmp_path, INFO).keep(outcome.onto(RECORD), outcome))

    outcome = Bench(0, exporters={"parity": _Halved()}).run(at, keep)
    assert outcome.details[-1].endswith("onnx.reference agrees with onnxruntime, so the graph is wrong")
    folder = tmp_path / found[0].folder
    assert {"model.onnx", "model.onnx.data"} <= {path.name for path in folder.iterdir()}
    assert reproduce(folder, tmp_path)[0] == 1


def test_bundles_are_bounded_in_number_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MOST", 2)
    bundles = Bundles(tmp_path, INFO)
    declarations = [op(F.elu, floats(2, 3)) for _ in range(3)]
    lines = [kept(tmp_path, wrong_alpha, declaration=each, bundles=bundles).line for each in declarations]
    assert lines[2] == (
        "bundle: not kept, 2 are. This makes it:  parity repro 'case-float32-opset18-cpu-trace-onnxruntime'"
    )
    monkeypatch.setattr(bundle, "LARGEST", 100)
    assert kept(tmp_path, wrong_alpha).line.startswith("bundle: not kept, it would be 0 MiB. This makes it:  parity ")


def test_a_bundle_that_cannot_be_written_is_reported_and_the_outcome_is_kept(tmp_path: Path) -> None:
    (tmp_path / "failures").write_text("in the way")
    found = kept(tmp_path, wrong_alpha)
    assert (found.folder, found.line.startswith("bundle: not kept: [Errno 20] Not a directory")) == ("", True)


def test_a_bundle_replaces_a_bundle_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / kept(tmp_path, wrong_alpha).folder
    (folder / "model.onnx").write_text("stale")
    assert kept(tmp_path, wrong_alpha).folder
    assert (folder / "model.onnx").read_bytes() == wrong_alpha(18, Request(torch.nn.ELU(), (), (), {}))
    (folder / "bundle.json").unlink()
    assert kept(tmp_path, wrong_alpha).line == (
        f"bundle: not kept: {folder} contains something other than a bundle: give a folder that is empty or does not "
        "exist yet."
    )
    assert (folder / "model.onnx").exists()


def test_folders_are_named_for_any_system_and_each_cell_has_its_own() -> None:
    assert slug("elu-float32-opset9-cpu-trace-onnxruntime") == "elu-float32-opset9-cpu-trace-onnxruntime"
    names = {slug(f"pad[mode={mode}]-{'x' * length}") for mode in "a:/*?" for length in (1, 500)}
    assert len(names) == 10
    assert all(len(name) < 140 and not set(name) & set(':/*?[]"<>|\\') for name in names)


_ALONE = """
import runpy, sys

for name in ("onnx_parity", "torch", "onnx", "msgspec"):
    sys.modules[name] = None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("dtype", [Dtype.FLOAT32, Dtype.BFLOAT16])
def test_a_bundle_needs_nothing_but_the_runtime(tmp_path: Path, dtype: Dtype) -> None:
    """Neither the project nor torch, and onnx neither, which onnxruntime does not bring."""

    def identity(opset: int, request: Request) -> bytes:
        kind = {Dtype.FLOAT32: onnx.TensorProto.FLOAT, Dtype.BFLOAT16: onnx.TensorProto.BFLOAT16}[dtype]
        ends = [helper.make_tensor_value_info(name, kind, (2, 3)) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "fake", ends[:1], ends[1:])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return bytes(made.SerializeToString())

    declaration = op(torch.neg, floats(2, 3), dtypes=[torch.float32, torch.bfloat16])
    folder = tmp_path / kept(tmp_path, identity, declaration=declaration, dtype=dtype).folder
    done = subprocess.run(
        [sys.executable, "-I", "-c", _ALONE, folder / "repro.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[-18:], done.stderr) == (1, "; 6 of 6 elements\n", "")


@pytest.mark.parametrize("runtime", [*RUNTIME_NAMES, "backend:onnxruntime.backend"])
def test_a_script_has_the_code_of_its_runtime_and_imports_nothing_of_the_project(runtime: str) -> None:
    runner = runner_of(runtime)
    script = script_of("cell\nwhy", runner, {"x": 'DATA["input_0"]'}, [['DATA["output_0"]', "None", "None"]], None)
    imported = {
        name.partition(".")[0]
        for node in ast.parse(script).body
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [])
    }
    needs_onnx = runtime in {"onnx.reference", "emx", "iree", "tvm", "jaxonnxruntime", "opencv"} or "backend" in runtime
    foreign = imported - sys.stdlib_module_names
    assert foreign == ({"numpy", "onnx"} if needs_onnx else {"numpy"})
    assert script.index("INPUTS = {") < script.index("def load(") < script.index("def compare(")
    assert "onnx_parity" not in script
