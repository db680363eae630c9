"""A model with external data that replaces another: after any failure, the model and its data still fit together."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter import ExternalData

ROOT = Path(__file__).parents[3]
X = torch.ones(1, 64)
#: All weights in one file, and each of the two in one of its own.
ONE, SHARDS = ExternalData(), ExternalData(shard_size=20_000)
#: Functions of `os` that change the names of files.
CALLS = ("replace", "rename", "link")


def network(value: float) -> nn.Module:
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
    return model


def saved(path: Path, value: float, how: ExternalData) -> None:
    onnx_parity.export(network(value), (X,), path, external_data=how)


def weights_of(path: Path) -> set[float]:
    """The numbers among the weights, as onnx and onnxruntime load them."""
    model = onnx.load(path)
    found = {float(x) for tensor in model.graph.initializer for x in np.unique(onnx.numpy_helper.to_array(tensor))}
    (result,) = onnxruntime.InferenceSession(path).run(None, {"input": X.numpy()})
    assert {float(np.sqrt(x)) / 64 for x in np.unique(result)} == found
    return found


def failing_at(number: int, monkeypatch: pytest.MonkeyPatch, fail: Callable[[], Any]) -> None:
    """Let one of the next calls that rename a file fail, and none of those that follow it."""
    count = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                fail()
            return original(*args, **kwargs)

        return call

    for name in ("replace", "rename"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("before", [None, ONE, SHARDS])
@pytest.mark.parametrize("how", [ONE, SHARDS])
@pytest.mark.parametrize("through_link", [False, True])
def test_both_or_neither(
    tmp_path: Path, before: ExternalData | None, how: ExternalData, through_link: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    path = folder / "model.onnx"
    if before is not None:
        saved(path, 1, before)
    given = path
    if through_link:
        given = tmp_path / "link.onnx"
        given.symlink_to(path)
    was = content(folder)
    program = onnx_parity.export(network(2), (X,))

    def full() -> None:
        raise OSError(28, "No space left on device")

    failures, message = 0, ""
    while True:
        with monkeypatch.context() as patched:
            failing_at(failures + 1, patched, full)
            try:
                program.save(given, external_data=how)
                break
            except onnx_parity.WriteError as error:
                message = str(error)
        assert "No space left on device. Nothing was changed there. " in message
        assert content(folder) == was
        failures += 1
    assert failures >= 2
    assert weights_of(path) == {2.0}
    assert given.is_symlink() is through_link
    names = ["model.onnx", "model.onnx.data"] if how is ONE else ["model.onnx", *_shards()]
    left_over = set(was) - set(names)
    assert set(os.listdir(folder)) == {*names, *left_over}


def _shards() -> list[str]:
    return [f"model.onnx-{number:05}-of-00002.data" for number in (1, 2)]


_KILLED = """
    import os, signal, sys, torch
    from torch import nn
    import onnx_parity
    from tests.exporter.files.test_replacing_models import CALLS, ONE, SHARDS, saved
    from pathlib import Path

    path, how = Path(sys.argv[1]), {"one": ONE, "shards": SHARDS}[sys.argv[2]]
    steps, program = Path(sys.argv[3]), onnx_parity.export(torch.relu, (torch.ones(2),))
    import shutil
    count = 0
    def counted(original):
        def call(*args, **kwargs):
            global count
            result = original(*args, **kwargs)
            count += 1
            # What the process would leave if it were killed now.
            shutil.copytree(path.parent, steps / str(count), symlinks=True)
            return result
        return call
    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    saved(path, 2, how)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", [pytest.param("one", marks=pytest.mark.slow), "shards"])
def test_the_process_is_killed_in_between(tmp_path: Path, how: str) -> None:
    """What lies in the folder after each renaming is one model, the old one or the new one."""
    folder, steps = tmp_path / "models", tmp_path / "steps"
    folder.mkdir()
    steps.mkdir()
    saved(folder / "model.onnx", 1, ONE if how == "one" else SHARDS)
    arguments = [str(folder / "model.onnx"), how, str(steps)]
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(_KILLED), *arguments], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    found = [weights_of(step / "model.onnx") for step in sorted(steps.iterdir(), key=lambda step: int(step.name))]
    assert len(found) >= 4
    assert found == sorted(found, key=sorted), "the old model, and from some step on the new one"
    assert found[0] == {1.0} and found[-1] == {2.0}


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    saved(path, 1, ONE)
    # The state after the first step: a model that refers to a copy of the weights.
    shutil.move(tmp_path / "model.onnx.data", tmp_path / ".model.onnx.data.0123abcd")
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = ".model.onnx.data.0123abcd"
    onnx.save(model, path)
    assert weights_of(path) == {1.0}
    saved(path, 2, ONE)
    assert weights_of(path) == {2.0}


def test_a_file_system_without_second_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "model.onnx"
    for value in (1, 2):
        saved(path, value, ONE)
    assert weights_of(path) == {2.0} and sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]


def test_a_folder_in_the_place_of_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_parity.export(network(1), (X,), path)
    (tmp_path / "model.onnx.data").mkdir()
    (tmp_path / "model.onnx.data" / "precious").write_text("data")
    before = path.read_bytes()
    with pytest.raises(onnx_parity.WriteError) as caught:
        saved(path, 2, ONE)
    assert str(caught.value).startswith(
        f"cannot write the model to {path}: {tmp_path}/model.onnx.data is a folder. Nothing was changed there. "
    )
    assert path.read_bytes() == before and (tmp_path / "model.onnx.data" / "precious").read_text() == "data"
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]


def test_weights_that_are_referred_to_are_not_overwritten(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = network(1)
    for name in ("model.onnx.data", "model.onnx"):
        weights = tmp_path / name
        safetensors.save_file({"0.weight": model.state_dict()["0.weight"]}, weights)
        before = content(tmp_path)
        with pytest.raises(onnx_parity.WriteError) as caught:
            onnx_parity.export(model, (X,), tmp_path / "model.onnx", external_data=ExternalData(safetensors=(weights,)))
        assert str(caught.value) == (
            f"the model refers to the weights in {weights}, but writing it would replace that file: give the model "
            f"another name"
        )
        assert content(tmp_path) == before
        weights.unlink()


def test_a_name_that_is_no_unicode(tmp_path: Path) -> None:
    path = tmp_path / "model\udcff.onnx"
    with pytest.raises(onnx_parity.WriteError) as caught:
        saved(path, 1, ONE)
    assert str(caught.value) == (
        "the model cannot refer to a file of weights named 'model\\udcff.onnx.data', which is not valid Unicode: give "
        "the model another name"
    )
    onnx_parity.export(network(1), (X,), path)
    assert os.listdir(tmp_path) == ["model\udcff.onnx"]
