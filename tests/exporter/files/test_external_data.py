"""External data: in one file, in shards, and in existing safetensors files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter import ExternalData

safetensors = pytest.importorskip("safetensors.torch")

X = torch.linspace(-1, 1, 64).reshape(2, 32)


def deep() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16)).eval()


def locations(path: Path) -> dict[str, dict[str, str]]:
    graph = onnx.load(path, load_external_data=False).graph
    return {t.name: {entry.key: entry.value for entry in t.external_data} for t in graph.initializer}


def assert_right(path: Path, model: nn.Module) -> None:
    onnx.checker.check_model(str(path), full_check=True)
    (got,) = onnxruntime.InferenceSession(path).run(None, {"input": X.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), model(X).detach(), rtol=1e-5, atol=1e-6)


def test_shards(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = deep()
    onnx_parity.export(model, X, path, external_data=ExternalData(shard_size=10_000))
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == ["model.onnx", *(f"model.onnx-{number:05}-of-00003.data" for number in (1, 2, 3))]
    placed = locations(path)
    # The second weight alone is larger than a shard.
    assert [placed[f"{number}.weight"]["location"][11:16] for number in (0, 2, 4)] == ["00001", "00002", "00003"]
    assert placed["0.bias"] == {}
    assert_right(path, model)


@pytest.mark.parametrize("alignment", [1, 64, 65536])
def test_alignment(tmp_path: Path, alignment: int) -> None:
    path = tmp_path / "model.onnx"
    model = deep()
    onnx_parity.export(model, X, path, external_data=ExternalData(alignment=alignment))
    offsets = [int(entry["offset"]) for entry in locations(path).values() if entry]
    assert all(offset % alignment == 0 for offset in offsets) and len(set(offsets)) == 3
    assert_right(path, model)


def test_safetensors_are_referred_to_and_not_written_again(tmp_path: Path) -> None:
    path, weights = tmp_path / "model.onnx", tmp_path / "weights" / "model.safetensors"
    model = deep()
    weights.parent.mkdir()
    safetensors.save_file(model.state_dict(), weights)
    before = weights.stat()
    onnx_parity.export(model, X, path, external_data=ExternalData(safetensors=(weights,)))
    assert weights.stat().st_mtime_ns == before.st_mtime_ns and not (tmp_path / "model.onnx.data").exists()
    assert {entry["location"] for entry in locations(path).values()} == {"weights/model.safetensors"}
    assert path.stat().st_size < 4096
    assert_right(path, model)


def test_what_the_files_do_not_hold_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = deep()
    state = model.state_dict()
    first = {name: tensor for name, tensor in state.items() if name.startswith("0")}
    rest = {name: tensor for name, tensor in state.items() if name not in first}
    rest["2.weight"] = rest["2.weight"] + 1
    rest["4.weight"] = rest["4.weight"].double()
    for name, part in (("a", first), ("b", rest)):
        safetensors.save_file(part, tmp_path / f"{name}.safetensors")
    files = (tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    onnx_parity.export(model, X, path, external_data=ExternalData(safetensors=files))
    placed = {name: entry.get("location") for name, entry in locations(path).items()}
    assert placed["0.weight"] == "a.safetensors" and placed["4.bias"] == "b.safetensors"
    assert placed["2.weight"] == placed["4.weight"] == "model.onnx.data"
    assert_right(path, model)


def test_a_model_without_data_refers_to_weights_of_its_names(tmp_path: Path) -> None:
    path, weights = tmp_path / "model.onnx", tmp_path / "model.safetensors"
    model = deep()
    safetensors.save_file(model.state_dict(), weights)
    with torch.device("meta"):
        empty = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16)).eval()
    onnx_parity.export(empty, X.to("meta"), path, external_data=ExternalData(safetensors=(weights,)))
    assert_right(path, model)


class Rearranged(nn.Module):
    """Weights that a model which stores them has in another order, or multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, 64))
        self.linear = nn.Linear(64, 24, bias=False)
        self.convolution = nn.Conv1d(24, 24, 3, bias=False)
        self.norm = nn.BatchNorm1d(24)
        self.scale = nn.Parameter(torch.ones(24))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        projected = self.linear((input @ self.table).reshape(2, 1, 64).expand(-1, 5, -1))
        folded: torch.Tensor = self.norm(self.convolution(projected.transpose(1, 2)))
        return folded.transpose(1, 2) * (1 + self.scale)


@pytest.mark.parametrize("has_data", [False, True])
def test_weights_that_are_referred_to_are_as_they_are_stored(tmp_path: Path, has_data: bool) -> None:
    path, weights = tmp_path / "model.onnx", tmp_path / "model.safetensors"
    model = Rearranged().eval()
    safetensors.save_file(model.state_dict(), weights)
    exported = model
    if not has_data:
        with torch.device("meta"):
            exported = Rearranged().eval()
    onnx_parity.export(exported, X, path, external_data=ExternalData(safetensors=(weights,)))
    found = locations(path)
    assert found["linear.weight"]["location"] == found["convolution.weight"]["location"] == "model.safetensors"
    assert not (tmp_path / "model.onnx.data").exists()
    assert_right(path, model)


def test_every_dtype_and_tensors_without_elements(tmp_path: Path) -> None:
    path, weights = tmp_path / "model.onnx", tmp_path / "model.safetensors"

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            dtypes = [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool]
            for number, dtype in enumerate(dtypes):
                self.register_buffer(f"t{number}", torch.arange(6).reshape(2, 3).to(dtype))
            self.register_buffer("none", torch.empty(0, 3))

        def forward(self, input: torch.Tensor) -> tuple[Any, ...]:
            return (input, *(buffer for buffer in self.buffers()))

    model = Table()
    safetensors.save_file(model.state_dict(), weights)
    onnx_parity.export(model, X, path, external_data=ExternalData(safetensors=(weights,)))
    assert all(entry["location"] == "model.safetensors" for entry in locations(path).values())
    loaded = onnx.load(path)
    arrays = {t.name: onnx.numpy_helper.to_array(t).astype("float32").tolist() for t in loaded.graph.initializer}
    assert arrays == {name: tensor.float().tolist() for name, tensor in model.state_dict().items()}


def of_header(text: str) -> bytes:
    """A file of this header, and of eight bytes of tensors."""
    return len(text).to_bytes(8, "little") + text.encode() + bytes(8)


def of_entry(**changed: object) -> bytes:
    return of_header(json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changed}}))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "a header of 0 bytes"),
        (b"\xff" * 20, "a header of 18,446,744,073,709,551,615 bytes"),
        (b"\x02\0\0\0\0\0\0\0[]", "its header is not a JSON object"),
        (b"\x05\0\0\0\0\0\0\0nojso", "Expecting value: line 1 column 1 (char 0)"),
        (of_header("[" * 99_999), "maximum recursion depth exceeded while decoding a JSON array from a unicode string"),
        (of_entry(data_offsets=[0]), "'w' has no dtype, shape and two offsets"),
        (of_entry(data_offsets=[0, 8.0]), "'w' has no dtype, shape and two offsets"),
        (of_entry(shape="2"), "'w' has no dtype, shape and two offsets"),
        (of_header('{"w": 1}'), "'w' has no dtype, shape and two offsets"),
        (of_entry(shape=[-2]), "'w' has the shape [-2]"),
        (of_entry(data_offsets=[-8, 0]), "the bytes of 'w' are outside of it"),
        (of_entry(data_offsets=[0, 9]), "the bytes of 'w' are outside of it"),
        (of_entry(data_offsets=[0, 4]), "'w' has 4 bytes, which is not what its dtype and shape need"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_files_that_are_none(tmp_path: Path, content: bytes, reason: str) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(content)
    with pytest.raises(onnx_parity.WriteError) as caught:
        onnx_parity.export(deep(), X, tmp_path / "model.onnx", external_data=ExternalData(safetensors=(weights,)))
    assert str(caught.value) == f"{weights} is not a safetensors file: {reason}"
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_what_is_not_possible(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    weights = tmp_path / "model.safetensors"
    with pytest.raises(onnx_parity.WriteError) as caught:
        onnx_parity.export(deep(), X, folder / "model.onnx", external_data=ExternalData(safetensors=(weights,)))
    assert str(caught.value) == f"cannot read the weights of {weights}: No such file or directory"
    safetensors.save_file(deep().state_dict(), weights)
    with pytest.raises(onnx_parity.WriteError) as caught:
        onnx_parity.export(deep(), X, folder / "model.onnx", external_data=ExternalData(safetensors=(weights,)))
    assert str(caught.value) == (
        f"the model cannot refer to {weights}, which is not in its folder, {folder}, or below, as ONNX "
        "requires: write the model to the folder of its weights."
    )
    assert list(folder.iterdir()) == []
    with pytest.raises(onnx_parity.ArgumentError) as wrong:
        ExternalData(shard_size=0)
    assert str(wrong.value) == "shard_size is 0: give the maximum bytes of a file, or None for one file"
    with pytest.raises(onnx_parity.ArgumentError) as wrong:
        ExternalData(alignment=0)
    assert str(wrong.value) == "alignment is 0: give a number of bytes, 1 or more"
    options: dict[str, Any] = {"shard_size": "1 GB", "alignment": None, "safetensors": "model.safetensors"}
    for name, given in options.items():
        with pytest.raises(onnx_parity.ArgumentError) as wrong:
            ExternalData(**{name: given})
        assert str(wrong.value).startswith(f"{name} is {given!r}: give ")
    with pytest.raises(onnx_parity.ArgumentError) as wrong:
        ExternalData(safetensors=(3,))  # type: ignore[arg-type]
    assert str(wrong.value) == "safetensors is (3,): give a list of paths"
