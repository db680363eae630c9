"""Disks that are full, and exports that the system ends: nothing that was not written whole is said to be, or stays."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.files.unfinished import name_unfinished, remove_unfinished

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and devices of Linux")


@pytest.fixture(scope="module")
def program() -> onnx_parity.ONNXProgram:
    return onnx_parity.export(torch.nn.Linear(64, 64), (torch.rand(2, 64),))


@pytest.mark.parametrize("buffering", [0, 64, 1 << 20])
def test_an_open_file_on_a_full_disk(program: onnx_parity.ONNXProgram, buffering: int) -> None:
    """A buffer that takes the whole model is emptied before success is reported."""
    with (
        suppress(OSError),  # Closing it fails, too.
        open("/dev/full", "wb", buffering=buffering) as file,
        pytest.raises(onnx_parity.WriteError, match="No space left on device"),
    ):
        program.save(file)


def test_a_path_on_a_full_disk(program: onnx_parity.ONNXProgram) -> None:
    with pytest.raises(onnx_parity.WriteError, match="No space left on device"):
        program.save("/dev/full")


def test_files_in_memory_are_written_whole(program: onnx_parity.ONNXProgram) -> None:
    file = io.BytesIO()
    program.save(file)
    assert file.getvalue() == program.serialize()


#: Exports beyond the size that files may have: Python raises an error, or the system ends the process.
_BEYOND_THE_LIMIT = """
    import resource, signal, sys, torch, onnx_parity
    program = onnx_parity.export(torch.nn.Linear(64, 64), (torch.rand(2, 64),))
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for external_data in (False, True):
        try:
            program.save(sys.argv[1], external_data=external_data)
        except onnx_parity.WriteError as error:
            print(error)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    program.save(sys.argv[1])
"""


@pytest.mark.slow
def test_files_beyond_the_limit(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"the model of before")
    command = [sys.executable, "-c", textwrap.dedent(_BEYOND_THE_LIMIT), str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGXFSZ, done.stderr
    assert done.stdout.count("File too large. Nothing was changed there. ") == 2
    assert path.read_bytes() == b"the model of before"
    (left,) = set(os.listdir(tmp_path)) - {"model.onnx"}
    assert left.endswith(".unfinished")
    program.save(path)
    assert os.listdir(tmp_path) == ["model.onnx"] and path.read_bytes() == program.serialize()


def test_folders_of_processes_that_have_ended_are_removed(tmp_path: Path) -> None:
    mine = name_unfinished(tmp_path / "session")
    ended = tmp_path / mine.name.replace(f"-{os.getpid()}-", f"-{2**22 + 1}-")
    for folder in (mine, ended):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"")
    remove_unfinished(tmp_path / "session")
    assert os.listdir(tmp_path) == [mine.name]
