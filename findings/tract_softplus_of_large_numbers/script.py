"""tract computes infinity for Softplus of a large number"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2] x) => (float[2] y) {
  y = Softplus (x)
}
""")
FEEDS = {"x": np.array([1, 200], np.float32)}
EXPECTED = np.array([np.log1p(np.exp(1.0)), 200.0], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.allclose(got, EXPECTED, rtol=1e-5, atol=0))
