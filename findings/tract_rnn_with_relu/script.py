"""tract computes an RNN with Tanh where its activation is Relu"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2,1,1] x) => (float[1,1,1] h) {
  w = Constant <value = float[1,1,1] {1.0}> ()
  r = Constant <value = float[1,1,1] {1.0}> ()
  b = Constant <value = float[1,2] {0.0, 0.0}> ()
  y, h = RNN <hidden_size = 1, activations = ["Relu"]> (x, w, r, b)
}
""")
FEEDS = {"x": np.array([[[1]], [[2]]], np.float32)}
EXPECTED = np.array([[[3]]], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
