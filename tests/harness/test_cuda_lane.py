"""The CUDA lane: turns on the device, with real processes; and on a machine that has none, cells that say so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.record import Status
from harness.store import read_info, read_records
from harness.subjects import cuda
from harness.subjects.slots import Slots
from tests.harness.test_plugin import run_pytest

#: Takes a slot, writes down when, holds it for a while, writes down when again.
_USER = """
import sys, time
from pathlib import Path
from harness.subjects.slots import Slots

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


def test_waiting_is_told_so_that_it_does_not_count_as_the_cells_time(tmp_path: Path) -> None:
    holder = use(tmp_path, slots=1, hold=0.5)
    while not log(tmp_path):
        assert holder.poll() is None
    looks: list[None] = []
    with Slots(tmp_path / "slots", 1).taken(lambda: looks.append(None)):
        assert holder.wait(timeout=30) == 0
    assert looks


def test_onnxruntime_is_told_what_to_do_with_float32_and_how_much_memory_to_take() -> None:
    name, options = cuda.provider()
    assert name == "CUDAExecutionProvider"
    assert (options["use_tf32"], options["gpu_mem_limit"]) == ("0", str(4 << 30))


def test_without_a_device_every_cell_of_the_lane_says_why_it_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = cases.py\n")
    (tmp_path / "cases.py").write_text(
        "import torch\nfrom harness.case import floats, op\nexp = op(torch.exp, floats(2, 3))\n"
        "fused = op(lambda x, y: x * y + 1, floats(2, 3), floats(3))\n"
    )
    found = run_pytest(tmp_path, "-n", "2", "--devices", "cuda", "--opsets", "9,18")
    records = list(read_records(found.folder))
    assert [(record.device, record.status, record.reason) for record in records] == [
        ("cuda", Status.ABSENT, "no CUDA device")
    ] * 4
    assert read_info(found.folder).missing["cuda"] == "no CUDA device"
    assert "absent: 4 cells: no CUDA device" in found.text
    assert found.code == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_case_runs_on_the_device() -> None:
    from harness.axes import Device
    from harness.case import floats, op
    from harness.running.stages import Bench
    from tests.harness.fakes import cell

    outcome = Bench(0).run(cell(op(torch.mm, floats(64, 64), mat2=floats(64, 64)), device=Device.CUDA))
    assert outcome.status is (Status.ABSENT if cuda.missing() else Status.PASSED)
    assert torch.backends.cuda.matmul.allow_tf32 is False
