"""tract takes the product of infinity and a constant 0 for 0"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[3] x) => (float[3] y) {
  c = Constant <value = float {0.0}> ()
  y = Mul (x, c)
}
""")
FEEDS = {"x": np.array([1, np.inf, np.nan], np.float32)}
EXPECTED = np.array([0, np.nan, np.nan], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED, equal_nan=True))
