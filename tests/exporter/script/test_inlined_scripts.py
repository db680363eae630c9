"""Scripts whose graphs torch's own exporter has changed: it inlines the functions that they call."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.exporter.script.inlined_calls import _CALLS, _graph


@torch.jit.script
def _resized(x: torch.Tensor, size: int, factor: float) -> list[torch.Tensor]:
    return [
        F.interpolate(x, size=[size, size + 1], mode="bilinear", align_corners=False),
        F.interpolate(x, size=size),
        F.interpolate(x, scale_factor=factor),
        F.interpolate(x, scale_factor=[factor, 2.0], mode="bicubic"),
        F.interpolate(x, size=[int(x.sum()) % 3 + 2, 4]),
    ]


class _Resizing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        resized: list[torch.Tensor] = _resized(x, 7, 1.5)
        return resized


def test_a_script_is_exported_after_torch_has_exported_it(tmp_path: Path) -> None:
    x = torch.arange(60.0).reshape(1, 2, 5, 6)
    with pytest.warns(DeprecationWarning, match="TorchScript"):
        torch.onnx.export(_Resizing(), (x,), str(tmp_path / "torchs.onnx"), dynamo=False, opset_version=16)
    kinds = {node.kind() for node in _resized.graph.nodes()}
    assert "aten::__interpolate" in kinds, "torch has left its graph as it was: then nothing is tested here"
    axes = {"x": {2: "height", 3: "width"}}
    path = tmp_path / "model.onnx"
    onnx_parity.export(_Resizing(), (x,), path, input_names=["x"], dynamic_axes=axes, opset_version=18)
    session = onnxruntime.InferenceSession(path)
    for example in (x, x[:, :, 1:] + 1):
        results = session.run(None, {"x": example.numpy()})
        for got, expected in zip(results, _Resizing()(example), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), expected, rtol=1e-5, atol=1e-4)


def test_every_such_operator_has_a_graph() -> None:
    schemas = [each for each in torch._C._jit_get_all_schemas() if each.name in _CALLS]
    assert {each.name for each in schemas} == _CALLS.keys()
    for each in schemas:
        assert "upsample" in str(_graph(each.name, str(each)))


def test_what_a_trace_calls_is_inlined_where_its_constants_are_tensors() -> None:
    """torch compares them with each other, which is no part of the program."""
    encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    traced = torch.jit.trace(encoder, (x,), check_trace=False)
    exported = onnx_parity.export(traced, (x,), input_names=["x"], dynamic_axes={"x": [1]}, verify=True)
    assert onnx_parity.export(encoder, (x,)).model.graph.num_nodes() == exported.model.graph.num_nodes()
