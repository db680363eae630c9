"""Destinations of a model: paths, open files, links, devices, pipes, and those that are refused."""

from __future__ import annotations

import io
import os
import re
import stat
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnx_parity
from tests.exporter.subjects import Classifier, images


@pytest.fixture(scope="module")
def program() -> onnx_parity.ONNXProgram:
    return onnx_parity.export(Classifier().eval(), (images(),))


def test_argument_order_is_that_of_torch(tmp_path: Path) -> None:
    model = Classifier().eval()
    returned = onnx_parity.export(model, (images(),), str(tmp_path / "model.onnx"), opset_version=13)
    assert (tmp_path / "model.onnx").read_bytes() == returned.serialize()


def test_paths_and_open_files_hold_the_same_bytes(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    program.save(str(tmp_path / "a.onnx"))
    program.save(tmp_path / "b.onnx")
    buffer = io.BytesIO()
    program.save(buffer)
    with open(tmp_path / "c.onnx", "wb") as file:
        program.save(file)
    written = {(tmp_path / name).read_bytes() for name in ("a.onnx", "b.onnx", "c.onnx")}
    assert written == {buffer.getvalue()} == {program.serialize()}
    assert sorted(os.listdir(tmp_path)) == ["a.onnx", "b.onnx", "c.onnx"]


def test_two_exports_are_the_same_bytes() -> None:
    model = Classifier().eval()
    first, second = (onnx_parity.export(model, (images(),), dynamic_axes={"input": [0]}).serialize() for _ in range(2))
    assert first == second


def test_link_is_written_through(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    (tmp_path / "real.onnx").write_bytes(b"old")
    (tmp_path / "link.onnx").symlink_to(tmp_path / "real.onnx")
    program.save(tmp_path / "link.onnx")
    assert (tmp_path / "link.onnx").is_symlink()
    assert (tmp_path / "real.onnx").read_bytes() == program.serialize()


def test_existing_file_keeps_its_mode(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch(0o640)
    program.save(tmp_path / "model.onnx")
    assert stat.S_IMODE((tmp_path / "model.onnx").stat().st_mode) == 0o640


def test_pipe_is_written_to(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    program.save(tmp_path / "pipe")
    reader.join(timeout=10)
    assert read == [program.serialize()]


def test_full_device_is_an_error_and_stays_a_device(program: onnx_parity.ONNXProgram) -> None:
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save("/dev/full")
    assert str(caught.value) == (
        "cannot write the model to /dev/full: No space left on device. Nothing was changed there. "
        "It needs 3,392 bytes and permission to write in /dev."
    )
    assert Path("/dev/full").is_char_device()


def test_external_data_can_be_mapped_and_run(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 30)).eval()
    x = torch.linspace(-1, 1, 300)[None]
    path = tmp_path / "model.onnx"
    onnx_parity.export(model, (x,), path, external_data=True)

    onnx.checker.check_model(str(path), full_check=True)
    weights = onnx.load(path, load_external_data=False).graph.initializer
    placed = {w.name: {entry.key: entry.value for entry in w.external_data} for w in weights if w.external_data}
    assert placed == {
        "0.weight": {"location": "model.onnx.data", "offset": "0", "length": "240000"},
        "1.weight": {"location": "model.onnx.data", "offset": "241664", "length": "24000"},
    }
    assert all(int(place["offset"]) % 4096 == 0 for place in placed.values())
    mapped = np.memmap(tmp_path / "model.onnx.data", np.float32, "r", 241664, (30, 200))
    weight = model[1].weight
    assert isinstance(weight, torch.Tensor)
    np.testing.assert_array_equal(mapped, weight.detach().numpy())
    (result,) = onnxruntime.InferenceSession(path).run(None, {"input": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), model(x).detach())


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("{folder}", "cannot write the model to {folder}: it is a folder. Give the name of a file in it."),
        (
            "{folder}/none/model.onnx",
            "cannot write the model to {folder}/none/model.onnx: {folder}/none is not an existing folder. "
            "Create it first.",
        ),
        (
            "{folder}/file/model.onnx",
            "cannot write the model to {folder}/file/model.onnx: {folder}/file is not an existing folder. "
            "Create it first.",
        ),
    ],
)
def test_impossible_paths(program: onnx_parity.ONNXProgram, tmp_path: Path, destination: str, message: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save(destination.format(folder=tmp_path))
    assert str(caught.value) == message.format(folder=tmp_path)
    assert os.listdir(tmp_path) == ["file"]


def test_invalid_destinations(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    text = io.StringIO()
    expected = re.escape("give a path, or a file opened for writing bytes (open(..., 'wb'))")
    for wrong in (text, 3):
        with pytest.raises(onnx_parity.ArgumentError, match=expected):
            program.save(wrong)  # type: ignore[arg-type]
    with pytest.raises(
        onnx_parity.ArgumentError,
        match=re.escape(
            "external_data=True writes the weights beside the model, which needs a path: give `f` as a path"
        ),
    ):
        program.save(io.BytesIO(), external_data=True)
    closed = io.BytesIO()
    closed.close()
    with pytest.raises(
        onnx_parity.WriteError,
        match=re.escape("I/O operation on closed file. The bytes that were written are not a model"),
    ):
        program.save(closed)
    for name, reason in (("a" * 300, "File name too long"), ("a\0b", "embedded null byte")):
        with pytest.raises(
            onnx_parity.WriteError, match=rf"^cannot write the model to .*: {reason}\. Give another path\.$"
        ):
            program.save(tmp_path / name)
    (tmp_path / "old").write_bytes(b"old")
    with (
        open(tmp_path / "old", "rb") as readable,
        pytest.raises(onnx_parity.WriteError, match="a file opened for writing"),
    ):
        program.save(readable)
    assert (tmp_path / "old").read_bytes() == b"old"


def test_external_data_has_no_place_beside_a_pipe(program: onnx_parity.ONNXProgram, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save(pipe, external_data=True)
    assert str(caught.value) == (
        f"cannot write external data beside {pipe}, which is not a regular file: give another path"
    )


def test_a_folder_that_is_not_there_is_told_before_the_work(tmp_path: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("it is called")

    with pytest.raises(onnx_parity.errors.WriteError, match="is not an existing folder"):
        onnx_parity.export(program, (torch.ones(2),), tmp_path / "absent" / "model.onnx")
