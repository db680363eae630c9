"""A model of 3 GB: written in one pass, in little memory, checked by its path, run. `pytest -m large`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys, time
import onnx, torch
import onnx_parity
from benchmarks.child import memory, settled_memory

class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8192, 8192, bias=False) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x

model, x = Wide().eval(), torch.rand(1, 8192)
onnx_parity.export(torch.nn.Linear(2, 2), torch.rand(1, 2), sys.argv[1] + ".small")
before = settled_memory()
start = time.perf_counter()
program = onnx_parity.export(model, x, sys.argv[1])
seconds = time.perf_counter() - start
extra = memory("VmHWM") - before
onnx.checker.check_model(sys.argv[1], full_check=True)
expected = model(x).detach()
weights = sum(p.nbytes for p in model.parameters())
import onnxruntime
del model
(got,) = onnxruntime.InferenceSession(sys.argv[1]).run(None, {"x": x.numpy()})
error = float((torch.from_numpy(got) - expected).abs().max() / expected.abs().max())
print(json.dumps({"weights": weights, "extra": extra, "seconds": seconds, "error": error}))
"""


@pytest.mark.large
def test_three_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout.splitlines()[-1])
        assert figures["weights"] > 3e9
        assert sorted(file.name for file in tmp_path.glob("model.onnx*")) == [
            "model.onnx", "model.onnx.data", "model.onnx.small",
        ]  # fmt: skip
        assert (tmp_path / "model.onnx.data").stat().st_size == figures["weights"]
        assert figures["extra"] < 0.1 * figures["weights"]
        assert figures["error"] < 1e-4
    finally:
        # pytest keeps folders of several runs.
        (tmp_path / "model.onnx.data").unlink(missing_ok=True)
