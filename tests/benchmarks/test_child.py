"""The jobs of a child process: the floor, memory, latency with its check of the files, and children that fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from benchmarks import child, children
from benchmarks.jobs import Failure, LatencyJob, Memory, MemoryJob, TimeJob, Times
from benchmarks.subjects import Contender, Weights, record_and_write


def write_model(path: Path, operator: str) -> str:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "graph", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return str(path)


def test_floor_writes_the_weights_and_nothing_else(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).eval()
    record_and_write(model, (torch.rand(2, 3),), tmp_path / "floor")
    state = [*model.parameters(), *model.buffers()]
    assert (tmp_path / "floor").read_bytes() == b"".join(tensor.detach().numpy().tobytes() for tensor in state)


@pytest.mark.slow
def test_time_job_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "elu.onnx"
    job = TimeJob(Contender.TORCHSCRIPT, "elu", path=str(path), dynamic=True, warm=2)
    times = children.run(job, tmp_path)
    assert isinstance(times, Times)
    assert len(times.warm) > 2
    assert sum(clock.wall for clock in times.warm) > child.WARM_SECONDS
    assert 0 < min(clock.cpu for clock in times.warm) < times.first.cpu
    exported = onnx.load(path)
    assert [node.op_type for node in exported.graph.node] == ["Elu"]
    assert exported.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.slow
def test_a_child_imports_nothing_that_a_first_export_imports() -> None:
    program = "import sys, benchmarks.child; print(*{'onnx', 'onnxruntime', 'onnx_parity.exporter'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.slow
def test_memory_job_sees_what_an_export_holds(tmp_path: Path) -> None:
    path = tmp_path / "lstm.bin"
    memory = children.run(MemoryJob(Contender.FLOOR, "lstm", path=str(path), weights=Weights.EXTERNAL), tmp_path)
    assert isinstance(memory, Memory)
    assert memory.weights == path.stat().st_size
    assert 0 < memory.extra < 100e6


def test_high_water_mark_is_of_the_export_alone() -> None:
    held = [torch.ones(50_000_000)]
    held.clear()
    before = child.settled_memory()
    assert child.memory("VmHWM") - before < 10e6
    held.append(torch.ones(25_000_000))
    held.clear()
    assert 95e6 < child.memory("VmHWM") - before < 150e6


def test_latency_is_not_measured_of_a_file_that_computes_something_else(tmp_path: Path) -> None:
    paths = {
        Contender.OURS: write_model(tmp_path / "elu.onnx", "Elu"),
        Contender.DYNAMO: write_model(tmp_path / "neg.onnx", "Neg"),
    }
    latency = child.measure_latency(LatencyJob(model="elu", paths=paths, sessions=5, rounds=2))
    assert len(latency.milliseconds.pop(Contender.OURS)) == 5
    assert not latency.milliseconds
    assert latency.wrong[Contender.DYNAMO].startswith("onnxruntime's output differs by ")


@pytest.mark.slow
def test_a_child_that_fails_reports_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "elu.bin"
    outcome = children.run(TimeJob(Contender.FLOOR, "elu", path=str(path), dynamic=False, warm=1), tmp_path)
    assert outcome == Failure(f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'")


def test_child_that_hangs_is_ended(tmp_path: Path) -> None:
    job = TimeJob(Contender.FLOOR, "elu", path=str(tmp_path / "elu.bin"), dynamic=False, warm=1)
    assert children.run(job, tmp_path, timeout=0.01) == Failure("no outcome after 0.01 s")
