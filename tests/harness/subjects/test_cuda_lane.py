"""The CUDA lane: turns on the device, with real processes; without a device, absent cells with the reason."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.cases.program import InputSet, Program, build
from onnx_parity.harness.judging.blame import Evidence, rule, rule_on_failure
from onnx_parity.harness.judging.reference import NondeterministicError, consult
from onnx_parity.harness.record import Blame, Stage, Status
from onnx_parity.harness.running.stages import Bench, _on_the_cpu_only
from onnx_parity.harness.store import read_info, read_records
from onnx_parity.harness.subjects import cuda
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.subjects.runtime_interface import NotUsableError
from onnx_parity.harness.subjects.runtimes import OnnxRuntime
from onnx_parity.harness.subjects.slots import Slots
from tests.harness.fakes import cell, one_node
from tests.harness.pytest_run import run_pytest

#: Takes a slot, writes down when, holds it for a while, writes down when again.
_USER = """
import sys, time
from pathlib import Path
from onnx_parity.harness.subjects.slots import Slots

folder, log, number, hold = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
with Slots(folder, number).taken() as slot:
    with log.open("a") as file:
        file.write(f"{time.monotonic()} 1 {slot}\\n")
    time.sleep(hold)
    with log.open("a") as file:
        file.write(f"{time.monotonic()} -1 {slot}\\n")
"""


def use(folder: Path, *, slots: int, hold: float) -> subprocess.Popen[bytes]:
    arguments = [str(folder / "slots"), str(folder / "log"), str(slots), str(hold)]
    return subprocess.Popen([sys.executable, "-c", _USER, *arguments])


def log(folder: Path) -> list[tuple[float, int, int]]:
    path = folder / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted((float(at), int(change), int(slot)) for at, change, slot in map(str.split, lines))


def test_no_more_processes_use_the_device_than_there_are_slots(tmp_path: Path) -> None:
    users = [use(tmp_path, slots=2, hold=0.2) for _ in range(6)]
    assert [user.wait(timeout=60) for user in users] == [0] * 6
    at_once = most = 0
    for _, change, _ in log(tmp_path):
        at_once += change
        most = max(most, at_once)
    assert len(log(tmp_path)) == 12
    assert most == 2
    assert {slot for _, _, slot in log(tmp_path)} == {0, 1}


def test_the_slot_of_a_process_that_is_killed_is_free(tmp_path: Path) -> None:
    holder = use(tmp_path, slots=1, hold=600)
    while not log(tmp_path):
        assert holder.poll() is None
    next_one = use(tmp_path, slots=1, hold=0)
    with pytest.raises(subprocess.TimeoutExpired):
        next_one.wait(timeout=0.5)
    holder.send_signal(signal.SIGKILL)
    assert next_one.wait(timeout=30) == 0
    assert holder.wait() == -signal.SIGKILL


def test_waiting_is_reported_and_does_not_count_as_time_of_the_cell(tmp_path: Path) -> None:
    holder = use(tmp_path, slots=1, hold=0.5)
    while not log(tmp_path):
        assert holder.poll() is None
    looks: list[None] = []
    with Slots(tmp_path / "slots", 1).taken(lambda: looks.append(None)):
        assert holder.wait(timeout=30) == 0
    assert looks


def test_onnxruntime_has_no_tf32_and_limited_memory() -> None:
    name, options = cuda.provider()
    assert name == "CUDAExecutionProvider"
    assert (options["use_tf32"], options["gpu_mem_limit"]) == ("0", str(4 << 30))


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_does_not_load_is_absent_and_no_pass_on_the_cpu() -> None:
    """As where the CUDA of onnxruntime-gpu is not the machine's; here there is no provider at all."""
    with pytest.raises(NotUsableError) as told:
        OnnxRuntime().load(one_node("Elu", 18), Device.CUDA)
    assert str(told.value) == (
        "onnxruntime cannot load its CUDA provider: install the CUDA and cuDNN that this onnxruntime-gpu is for"
    )


def test_without_a_device_every_cell_of_the_lane_has_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = cases.py\n")
    (tmp_path / "cases.py").write_text(
        "import torch\nfrom onnx_parity.harness.case import floats, op\nexp = op(torch.exp, floats(2, 3))\n"
        "fused = op(lambda x, y: x * y + 1, floats(2, 3), floats(3))\n"
    )
    found = run_pytest(tmp_path, "-n", "2", "--devices", "cuda", "--opsets", "9,18")
    records = list(read_records(found.folder))
    assert [(record.device, record.status, record.reason) for record in records] == [
        ("cuda", Status.ABSENT, "no CUDA device")
    ] * 4
    assert read_info(found.folder).missing["cuda"] == "no CUDA device"
    assert "absent: 4 cells more: no CUDA device" in found.text
    assert found.code == 0


@pytest.mark.slow
def test_declarations_may_ask_for_a_device_before_the_process_for_cells_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch then asks the driver, and not CUDA, which works in no copy of a process that has used it."""
    monkeypatch.delenv("PYTORCH_NVML_BASED_CUDA_CHECK", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = cases.py\n")
    (tmp_path / "cases.py").write_text(
        "import torch\nfrom onnx_parity.harness.case import floats, op\n"
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nasked = torch.cuda._nvml_based_avail()\n"
        "exp = op(lambda x: x.exp() if asked else x.missing, floats(2, 3))\n"
    )
    found = run_pytest(tmp_path, "-n", "2", "--opsets", "9,18")
    assert [record.status for record in read_records(found.folder) if record.device == "cpu"] == [Status.PASSED] * 2


def test_cells_say_that_cuda_was_used_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    outcome = Bench(0).run(cell(op(torch.exp, floats(2)), device=Device.CUDA))
    assert outcome.status is Status.ABSENT
    assert outcome.reason.startswith("CUDA was used before the process for cells was started")


@pytest.mark.parametrize(
    ("device", "stage", "error", "is_absent"),
    [
        (Device.CUDA, Stage.REFERENCE, NotImplementedError("\"resize\" not implemented for 'Byte'"), True),
        (Device.CUDA, Stage.REFERENCE, RuntimeError("Expected all tensors to be on the same device"), True),
        (Device.CPU, Stage.REFERENCE, RuntimeError("Expected all tensors to be on the same device"), False),
        (Device.CUDA, Stage.EXPORT, RuntimeError("Expected all tensors to be on the same device"), False),
        (Device.CUDA, Stage.REFERENCE, torch.AcceleratorError("device-side assert triggered", 710), False),
        (Device.CUDA, Stage.REFERENCE, torch.OutOfMemoryError("CUDA out of memory"), False),
        (Device.CUDA, Stage.REFERENCE, NondeterministicError("output 0 is another one"), False),
    ],
)
def test_what_torch_runs_on_the_cpu_only_is_absent(
    device: Device, stage: Stage, error: Exception, is_absent: bool
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        raise error

    declared = op(program, floats(2))
    built = build(next(declared.cases("case")), Dtype.FLOAT32, Device.CPU, 0)
    with pytest.raises(type(error)):
        built.run(built.inputs(InputSet()))
    assert _on_the_cpu_only(cell(declared, device=device), stage, error) is is_absent


def test_errors_of_the_harness_itself_are_not_those_of_torch() -> None:
    error = RuntimeError("Expected all tensors to be on the same device")
    assert not _on_the_cpu_only(cell(op(torch.exp, floats(2)), device=Device.CUDA), Stage.REFERENCE, error)


def test_what_is_right_on_the_cpu_is_the_fault_of_what_runs_on_the_device() -> None:
    """onnxruntime on the CPU is a witness. Its optimiser is not accused: it was not asked on the device."""
    program = build(next(op(F.elu, floats(2, 3)).cases("case")), Dtype.FLOAT32, Device.CPU, 0)
    trial = consult(program).example
    evidence = Evidence(trial, Delivered(one_node("Elu", 18)), "onnxruntime", Device.CUDA)
    for off, blame in ((0.5, Blame.RUNTIME), (1e-5, Blame.PRECISION)):
        outputs = [trial.expected[0].value + np.float32(off)]
        verdict = judge(outputs, trial.expected)
        assert rule(evidence, outputs, verdict).blame is blame
    ruling = rule_on_failure(evidence)
    assert ruling.because == (
        "onnxruntime runs it on the CPU and agrees with torch, so what onnxruntime does on cuda is wrong"
    )
    wrong = Delivered(one_node("Elu", 18, alpha=0.3))
    outputs = [np.asarray(each) for each in OnnxRuntime().load(wrong.model, Device.CPU).run(trial.feeds)]
    verdict = judge(outputs, trial.expected)
    assert rule(dataclasses.replace(evidence, delivered=wrong), outputs, verdict).blame is Blame.EXPORTER


def test_what_a_program_makes_it_makes_where_it_runs() -> None:
    program = build(next(op(lambda x: x + torch.ones(3), floats(3)).cases("case")), Dtype.FLOAT32, Device.CPU, 0)
    with program.at_home():
        assert torch.ones(1).device.type == "cpu"
    assert dataclasses.replace(program, device=Device.CUDA).at_home() == torch.device("cuda")
    # What the exporter makes on the way does not follow: it is written to a file.
    with torch.device("meta"):
        exported = onnx_parity.export(lambda x: x.reshape(2, 3) + 1, (torch.ones(6, device="cpu"),))
    assert torch.equal(exported(torch.ones(6)), torch.full((2, 3), 2.0))


def test_torch_has_no_tf32_and_limited_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that is pretended: with 24 GiB there is room for three processes of twice 4."""
    asked: list[float | str] = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=24 << 30))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", asked.append)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: asked.append("given back"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for made_once in (cuda.prepare_torch, cuda._slots):
        made_once.cache_clear()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    with cuda.in_turn(lambda: None):
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
        assert len(list(tmp_path.glob("parity-cuda-*/slot-*"))) == 3
    with cuda.in_turn(lambda: None):
        pass
    assert asked == [1 / 6, "given back", "given back"]
    for made_once in (cuda.prepare_torch, cuda._slots):
        made_once.cache_clear()


def test_a_gpu_may_add_in_another_order_each_time_and_a_cpu_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter(range(100))
    wavering = op(lambda x: x * (1 + next(turns) % 4 * 2**-23), floats(50, low=1.0, high=2.0))
    program = build(next(wavering.cases("case")), Dtype.FLOAT32, Device.CPU, 0)
    with pytest.raises(NondeterministicError):
        consult(program)
    inputs = {which: program.inputs(which) for which in (InputSet(), InputSet(draw=1), InputSet(has_nan=True))}
    monkeypatch.setattr(Program, "inputs", lambda program, which: inputs[which])
    monkeypatch.setattr(Program, "at_home", lambda program: nullcontext())
    assert consult(dataclasses.replace(program, device=Device.CUDA)).other_values is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_case_runs_on_the_device() -> None:
    outcome = Bench(0).run(cell(op(torch.mm, floats(64, 64), mat2=floats(64, 64)), device=Device.CUDA))
    assert outcome.status is (Status.ABSENT if cuda.missing() else Status.PASSED)
    assert torch.backends.cuda.matmul.allow_tf32 is False
