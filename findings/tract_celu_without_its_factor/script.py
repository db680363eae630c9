"""tract computes Celu without the factor alpha"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[3] x) => (float[3] y) {
  y = Celu <alpha = 0.5> (x)
}
""")
FEEDS = {"x": np.array([-2, -1, 1], np.float32)}
EXPECTED = np.array([0.5 * np.expm1(-4.0), 0.5 * np.expm1(-2.0), 1.0], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.allclose(got, EXPECTED, rtol=1e-5, atol=0))
