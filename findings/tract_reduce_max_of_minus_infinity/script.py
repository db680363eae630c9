"""tract finds the lowest finite number in a row of minus infinities"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2,2] x) => (float[2,1] y) {
  axes = Constant <value = int64[1] {1}> ()
  y = ReduceMax <keepdims = 1> (x, axes)
}
""")
FEEDS = {"x": np.array([[-np.inf, -np.inf], [1, -np.inf]], np.float32)}
EXPECTED = np.array([[-np.inf], [1]], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
