"""tract aborts the process if ScatterND adds at a negative index"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[3] x, int64[1,1] i, float[1] u) => (float[3] y) {
  y = ScatterND <reduction = "add"> (x, i, u)
}
""")
FEEDS = {"x": np.zeros(3, np.float32), "i": np.array([[-1]]), "u": np.ones(1, np.float32)}
EXPECTED = np.array([0, 0, 1], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
