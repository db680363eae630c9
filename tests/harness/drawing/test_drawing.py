"""Drawings of cases: the exported graphs at every opset, where their nodes come from, and the errors of values."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from msgspec.structs import replace

import onnx_parity
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.verification.oracle import expect
from onnx_parity.harness.case import Declaration, floats, op
from onnx_parity.harness.drawing import tasks as tasks_module
from onnx_parity.harness.drawing.draw import draw
from onnx_parity.harness.drawing.drawings import Drawing, blank_drawing, drawings_of, keep_drawing
from onnx_parity.harness.drawing.error_picture import error_picture
from onnx_parity.harness.drawing.tasks import Task, draw_all, tasks
from onnx_parity.harness.matrix.lookup import cell_of
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.results.content import hash_declaration
from onnx_parity.harness.running.child_process import ProcessEndedError
from tests.records import INFO, RECORD, write_run


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softmax(x * 2, dim=-1).exp()


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.heads(x, x, x, need_weights=False)[0]
        return y


#: The line of the program, as drawings name it.
LINE = f"test_drawing.py:{scaled.__code__.co_firstlineno + 1}"


def drawn(declaration: Declaration, *opsets: int) -> Drawing:
    cell = cell_of(f"scaled-float32-opset{opsets[-1]}-cpu-trace-onnxruntime", "scaled", declaration)
    assert cell is not None
    return draw(replace(RECORD, case="scaled", name="scaled", opset=opsets[-1]), cell, opsets, seed=0)


@pytest.fixture(scope="module")
def drawing() -> Drawing:
    return drawn(op(scaled, floats(2, 3)), 9, 13, 18)


def test_a_drawing_has_the_graph_of_every_opset_once(drawing: Drawing) -> None:
    assert [at.opset for at in drawing.opsets] == [9, 13, 18]
    assert not any(at.error for at in drawing.opsets)
    # A softmax has its modern meaning from opset 13 on, and multiplication another version from 14 on.
    assert len(drawing.graphs) == len({at.graph for at in drawing.opsets})
    graph = drawing.graphs[drawing.opsets[-1].graph]
    assert [node.op for node in graph.nodes][-2:] == ["Softmax", "Exp"]
    assert graph.types[graph.inputs[0]] == "Float(2, 3)"
    # The exporter does not write the shapes of values inside; they are inferred.
    assert graph.types[graph.nodes[-1].inputs[0]] == "Float(2, 3)"
    softmax = graph.nodes[-2]
    assert (softmax.operator.partition(".")[0], softmax.since) == ("aten", 13)
    assert softmax.where.endswith(LINE) and not os.path.isabs(softmax.where)


def test_a_drawing_has_the_recorded_program(drawing: Drawing) -> None:
    first, *lines, last = drawing.program.splitlines()
    assert first.startswith("program(") and "float32[2, 3]" in first
    assert any("aten.mul.Tensor" in line and "other=2" in line and LINE in line for line in lines)
    assert last.startswith("  return ")


def test_values_inside_a_right_model_are_right(drawing: Drawing) -> None:
    assert len(drawing.values) >= 2
    assert not any(value.diverges for value in drawing.values.values())
    assert sum(drawing.errors[0].ulps) == 6
    assert (len(drawing.errors[0].map), len(drawing.errors[0].map[0])) == (2, 3)


def test_the_first_wrong_value_inside_a_model_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter is made to divide where the program multiplies."""
    right = onnx_parity.Capture.lower

    def wrong(self: onnx_parity.Capture, *arguments: object, **more: object) -> ONNXProgram:
        program = right(self, *arguments, **more)  # type: ignore[arg-type]
        node = next(node for node in program.model.graph if node.op_type == "Mul")
        node.op_type = "Div"
        return program

    monkeypatch.setattr(onnx_parity.Capture, "lower", wrong)
    found = drawn(op(scaled, floats(2, 3)), 18)
    graph = found.graphs[0]
    by_op = {node.op: node.outputs[0] for node in graph.nodes}
    assert found.values[by_op["Div"]].diverges
    assert found.values[by_op["Softmax"]].diverges
    assert max(map(max, found.errors[0].map)) > 1


def test_what_an_opset_cannot_express_is_told() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x)

    found = drawn(op(scaled, floats(2, 3)), 7, 13)
    assert [bool(at.error) for at in found.opsets] == [True, False]
    assert "aten::nonzero" in found.opsets[0].error


def test_an_error_picture_counts_every_element() -> None:
    value = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
    got = value.copy()
    got[0, 0], got[2, 3] = np.nextafter(got[0, 0], np.float32(9)), np.nan
    picture = error_picture("y", got, expect(value, value.astype(np.float64)))
    assert (sum(picture.ulps), picture.not_finite) == (11, 1)
    assert picture.ulps[0] == 10 and picture.ulps[1] == 1
    assert picture.map[2][3] > 1 > picture.map[0][0] > 0
    whole = error_picture("n", np.array([1, 2, 4]), expect(np.array([1, 2, 3]), None))
    assert (whole.ulps[0], whole.ulps[-1], whole.map[0][2] > 1) == (2, 1, True)
    assert error_picture("s", got[0], expect(value, None)).ulps == []
    wide = error_picture("w", np.zeros((500, 500), np.float32), expect(np.zeros((500, 500), np.float32), None))
    assert (len(wide.map), len(wide.map[0]), wide.pooled) == (24, 46, (11, 21))
    assert error_picture("e", np.zeros((0, 3), np.float32), expect(np.zeros((0, 3), np.float32), None)).map == []


#: Where the declarations of these tests are.
HERE = [Path("some.py")]


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A record whose declaration is in the working directory, as it was when the cell ran."""
    monkeypatch.chdir(tmp_path)
    Path("some.py").write_text("elu = 1\n")
    return replace(RECORD, file="some.py", source=hash_declaration(Path("some.py"), "elu"))


def test_few_cases_are_all_drawn_and_of_many_one_of_each_cause(declared: Record, tmp_path: Path) -> None:
    few = [replace(declared, cell=f"{n}", case=f"elu[{n}]") for n in range(3)]
    assert [task.record.case for task in tasks(write_run(tmp_path / "few", few), HERE)] == [
        "elu[0]",
        "elu[1]",
        "elu[2]",
    ]
    many = [replace(declared, cell=f"{n}", case=f"elu[{n}]") for n in range(30)]
    many[7:9] = [replace(each, status=Status.FAILED, stage=Stage.LOAD, reason="no kernel") for each in many[7:9]]
    many[9] = replace(many[9], status=Status.FAILED, stage=Stage.EXPORT, reason="cannot")
    many[10] = replace(many[10], status=Status.CRASHED)
    run = write_run(tmp_path / "many", many)
    assert [task.record.case for task in tasks(run, HERE)] == ["elu[7]", "elu[9]"]
    # The brackets of a label are no pattern.
    assert [task.record.case for task in tasks(run, HERE, ["elu[3]", "elu[[]12]"])] == ["elu[3]", "elu[12]"]
    assert len(tasks(run, HERE, ["elu"])) == 30
    assert tasks(run, HERE, ["nothing*"]) == []


def test_the_wrong_cell_is_drawn_at_the_opsets_of_its_axes(declared: Record, tmp_path: Path) -> None:
    cells = [
        replace(declared, cell=f"{dtype}{opset}", dtype=dtype, opset=opset)
        for dtype in ("float32", "float16")
        for opset in (9, 13)
    ]
    cells[2] = replace(cells[2], status=Status.FAILED)
    (task,) = tasks(write_run(tmp_path, [*cells, replace(declared, cell="late", opset=20)]), HERE)
    assert (task.record.dtype, task.record.opset, task.opsets) == ("float16", 9, [9, 13])


def test_other_exporters_of_the_run_are_drawn_at_the_same_point(declared: Record, tmp_path: Path) -> None:
    script = replace(declared, cell="script", exporter="torch_script")
    cells = [
        declared, replace(declared, cell="early", opset=7), script, replace(script, cell="early script", opset=7),
        replace(script, cell="half", exporter="torch_dynamo", dtype="float16"),
        replace(script, cell="theirs", exporter="module_of_theirs.export"),
    ]  # fmt: skip
    (task,) = tasks(write_run(tmp_path, cells), HERE)
    assert (task.record.cell, [each.cell for each in task.others]) == (declared.cell, ["script"])
    (task,) = tasks(tmp_path / INFO.id, HERE, ["*"], any_subject=True)
    assert [each.cell for each in task.others] == ["theirs", "script"]


def test_the_graph_of_a_cell_that_fell_back_to_another_runtime_is_beside_the_others(
    declared: Record, tmp_path: Path
) -> None:
    script = replace(declared, cell="script", exporter="torch_script", status=Status.FAILED, runtime="onnx.reference")
    early = replace(script, cell="early", opset=7, status=Status.PASSED, runtime="onnxruntime")
    (task,) = tasks(write_run(tmp_path, [declared, script, early]), HERE)
    assert (task.record.cell, task.opsets) == ("script", [7, declared.opset])
    assert [each.cell for each in task.others] == [declared.cell]


def test_the_graphs_of_other_exporters_are_beside_ours() -> None:
    declaration = op(scaled, floats(2, 3))
    ours, theirs = (
        cell_of(f"scaled-float32-opset13-cpu-trace-onnxruntime{exporter}", "scaled", declaration)
        for exporter in ("", "-torch_script")
    )
    assert ours is not None and theirs is not None
    drawing = draw(replace(RECORD, case="scaled", name="scaled", opset=13), ours, [13], 0, [theirs])
    assert [(each.opset, each.graph, each.exporter) for each in drawing.opsets] == [
        (13, 0, ""),
        (13, 1, "torch_script"),
    ]
    assert {node.op for node in drawing.graphs[1].nodes} == {"Constant", "Mul", "Softmax", "Exp"}
    assert drawing.exporter == "parity"


def test_a_module_is_drawn_as_the_other_exporter_exported_it() -> None:
    # Without gradients, torch takes a path through it that TorchScript's exporter refuses.
    cell = cell_of(
        "attention-float32-opset14-cpu-trace-onnxruntime-torch_script", "attention", op(Attention, floats(1, 3, 4))
    )
    assert cell is not None
    record = replace(RECORD, case="attention", name="attention", opset=14, exporter="torch_script")
    drawing = draw(record, cell, [14], 0)
    assert drawing.missing == ""
    assert [picture.name for picture in drawing.errors] != []


def test_what_is_drawn_or_has_changed_is_not_drawn_again(declared: Record, tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs", [declared])
    (task,) = tasks(run, HERE)
    keep_drawing(Path(task.file), blank_drawing(task.record))
    assert [each.key for each in drawings_of(run)] == [("operator", "activation", "elu", "elu[alpha=1.0]")]
    assert tasks(run, HERE) == []
    Path(task.file).write_text("damaged")
    assert list(drawings_of(run)) == [] and len(tasks(run, HERE)) == 1
    changed = replace(declared, source="that of another declaration")
    assert tasks(write_run(tmp_path / "changed", [changed]), HERE, ["*"]) == []


def test_a_run_from_elsewhere_has_no_code_of_its_own_run(declared: Record, tmp_path: Path) -> None:
    Path("elsewhere").mkdir()
    Path("here").mkdir()
    Path("elsewhere/some.py").write_text("elu = 1\n")
    foreign = [
        replace(declared, cell="path", case="path", file="elsewhere/some.py"),
        replace(declared, cell="up", case="up", file="here/../some.py"),
        replace(declared, cell="exporter", case="exporter", exporter="elsewhere.some:export"),
        replace(declared, cell="runtime", case="runtime", runtime="backend:elsewhere.some"),
    ]
    run = write_run(tmp_path / "runs", foreign)
    assert tasks(run, [Path("here")]) == [] and tasks(run, []) == []
    assert [task.record.cell for task in tasks(run, HERE, ["*"], any_subject=True)] == ["up", "exporter", "runtime"]
    assert [task.record.cell for task in tasks(run, HERE, ["*"])] == ["up"]


def test_a_case_that_ends_the_process_is_told_and_the_next_are_drawn(
    declared: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "runs", [replace(declared, cell=f"{n}", case=f"elu[{n}]") for n in range(3)])
    wanted = tasks(run, HERE)
    begun: list[int] = []

    class Worker:
        """Draws the first case, and ends with the second."""

        def __init__(self, *_: object) -> None:
            begun.append(0)

        def send(self, message: bytes) -> None:
            task = msgspec.json.decode(message, type=Task)
            begun[-1] += 1
            if task.record.case == "elu[1]":
                raise ProcessEndedError(f"was killed by {signal.SIGSEGV.name}")
            keep_drawing(Path(task.file), blank_drawing(task.record))

        def answer(self, within: float) -> bytes:
            return b""

        def kill(self) -> None:
            pass

    monkeypatch.setattr(tasks_module, "WorkerProcess", Worker)
    draw_all(wanted, INFO, [])
    assert begun == [2, 1]
    assert {each.case: each.missing for each in drawings_of(run)} == {
        "elu[0]": "",
        "elu[1]": "the process that drew it was killed by SIGSEGV",
        "elu[2]": "",
    }
