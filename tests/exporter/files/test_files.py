"""Writing if the disk is full, the process dies, or the model is too large; and the memory that it takes."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx_ir.serde import SerdeError
from torch import nn

import onnx_parity
from onnx_parity.exporter.files.unfinished import name_unfinished

LIMIT = 100_000


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )


@pytest.mark.parametrize("external_data", [False, True])
def test_full_disk_leaves_the_old_file(tmp_path: Path, external_data: bool) -> None:
    program = onnx_parity.export(nn.Linear(300, 300), (torch.ones(1, 300),))
    (tmp_path / "model.onnx").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        with pytest.raises(onnx_parity.WriteError) as caught:
            program.save(tmp_path / "model.onnx", external_data=external_data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(caught.value) == (
        f"cannot write the model to {tmp_path}/model.onnx: File too large. Nothing was changed there. "
        f"It needs 361,200 bytes and permission to write in {tmp_path}."
    )
    assert os.listdir(tmp_path) == ["model.onnx"] and (tmp_path / "model.onnx").read_bytes() == b"old"


def test_folder_that_cannot_be_written_to() -> None:
    program = onnx_parity.export(nn.ReLU(), (torch.ones(2),))
    # Even root makes no files in /proc.
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save("/proc/model.onnx")
    assert str(caught.value) == (
        "cannot write the model to /proc/model.onnx: No such file or directory. Nothing was changed there. "
        "It needs 0 bytes and permission to write in /proc."
    )


def test_failure_between_the_two_files_leaves_neither(tmp_path: Path) -> None:
    program = onnx_parity.export(nn.Linear(300, 300), (torch.ones(1, 300),))
    program.model.graph.doc_string = "\ud800"  # cannot be encoded, so the second file fails after the first
    with pytest.raises(SerdeError):
        program.save(tmp_path / "model.onnx", external_data=True)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"old")
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
                import sys, time, torch, onnx_parity
                from onnx_parity.exporter.files import write
                program = onnx_parity.export(torch.nn.Linear(3000, 3000), (torch.ones(1, 3000),))
                chunks = write.chunks_of
                def slowly(tensor):
                    for chunk in chunks(tensor):
                        yield chunk[: len(chunk) // 2]
                        print("half", flush=True)
                        time.sleep(60)
                write.chunks_of = slowly
                program.save(sys.argv[1])
            """),
            str(tmp_path / "model.onnx"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "half\n"
    deadline = time.monotonic() + 5
    while not any(path.stat().st_size > 3 for path in tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir(tmp_path)) == 2
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert (tmp_path / "model.onnx").read_bytes() == b"old"


def test_more_than_one_file_can_hold(tmp_path: Path) -> None:
    program = onnx_parity.export(
        nn.Linear(30_000, 20_000, bias=False, device="meta"), (torch.ones(1, 30_000, device="meta"),)
    )
    message = (
        "the weights have 2,400,000,000 bytes, and a model in one file may have 2,147,483,647: "
        "save it to a path with external_data=True"
    )
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save(tmp_path / "model.onnx", external_data=False)
    assert str(caught.value) == message
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save(io.BytesIO())
    assert str(caught.value) == message
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.serialize()
    assert str(caught.value) == message
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("external_data", [False, True])
def test_weights_without_data(tmp_path: Path, external_data: bool) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to("meta").eval()
    program = onnx_parity.export(model, (torch.ones(1, 3, 8, 8, device="meta"),))
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save(tmp_path / "model.onnx", external_data=external_data)
    assert str(caught.value) == (
        "the weight '0.weight' has no data, because it is fake or on the meta device: export without a file, and "
        "call program.apply_weights(model.state_dict()) before program.save(...)"
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_memory_of_saving(tmp_path: Path) -> None:
    """Peak memory while saving, over what the weights already take, is at most a quarter of them."""
    done = run(
        """
        import resource, sys, torch, onnx_parity
        model = torch.nn.Sequential(*[torch.nn.Linear(1500, 1500) for _ in range(12)])
        small = torch.nn.Linear(3, 3)
        onnx_parity.export(small, (torch.ones(1, 3),), sys.argv[1])
        weights = sum(p.nbytes for p in model.parameters())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for external_data in (True, False):
            onnx_parity.export(model, (torch.ones(1, 1500),), sys.argv[1], external_data=external_data)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(grown * 1024 / weights)
        """,
        tmp_path / "model.onnx",
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 0.25


def test_an_unbuffered_file_takes_a_few_bytes_at_a_time(tmp_path: Path) -> None:
    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.taken = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any, /) -> int:
            self.taken += bytes(data[:1000])
            return min(len(data), 1000)

    program = onnx_parity.export(nn.Linear(300, 30), (torch.ones(1, 300),))
    file = Slow()
    program.save(file)  # type: ignore[arg-type]  # It has what is needed of a file.
    assert file.taken == program.serialize()


@pytest.mark.parametrize("taken", [0, None])
def test_an_unbuffered_file_that_takes_no_more(taken: int | None) -> None:
    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any, /) -> int | None:
            return taken

    program = onnx_parity.export(nn.ReLU(), (torch.ones(2),))
    words = "the file takes no more bytes" if taken == 0 else "the file would block"
    with pytest.raises(onnx_parity.WriteError, match=f"{words}. The bytes that were written are not a model"):
        program.save(Full())  # type: ignore[arg-type]


def test_an_unbuffered_file_on_a_full_disk(tmp_path: Path) -> None:
    program = onnx_parity.export(nn.Linear(300, 300), (torch.ones(1, 300),))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with (tmp_path / "model.onnx").open("wb", buffering=0) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
        try:
            with pytest.raises(onnx_parity.WriteError, match="File too large"):
                program.save(file)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)


def test_what_a_killed_export_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    ours = name_unfinished(tmp_path / "model.onnx")
    left = ours.with_name(ours.name.replace(f"-{os.getpid()}-", f"-{ended.pid}-"))
    others = [ours, tmp_path / ".other.onnx.12345678-1-12345678.unfinished", tmp_path / ".model.onnx.notes"]
    for path in (left, *others):
        path.write_bytes(b"half")
    onnx_parity.export(nn.ReLU(), (torch.ones(2),), tmp_path / "model.onnx")
    assert {*tmp_path.iterdir()} == {tmp_path / "model.onnx", *others}
