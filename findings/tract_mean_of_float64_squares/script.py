"""tract computes the mean of squares of float64 in float32"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (double[5] x) => (double[1] y) {
  square = Mul (x, x)
  y = ReduceMean <axes = [0]> (square)
}
""")
FEEDS = {"x": np.array([0.1, 0.2, 0.3, 0.4, 0.6])}
EXPECTED = np.array([0.132])

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.allclose(got, EXPECTED, rtol=1e-14, atol=0))
