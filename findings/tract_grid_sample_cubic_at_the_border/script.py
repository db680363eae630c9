"""tract interpolates cubically beyond the border with other pixels than those at the border"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[1,1,4,4] x, float[1,1,2,2] grid) => (float[1,1,1,2] y) {
  y = GridSample <mode = "bicubic", padding_mode = "border", align_corners = 1> (x, grid)
}
""")
FEEDS = {
    "x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4) ** 2,
    "grid": np.array([[[[-1.2, 0.1], [0.9, -0.9]]]], np.float32),
}
EXPECTED = np.array([[[[38.56659, 12.3766]]]], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
alike = got.dtype == EXPECTED.dtype and got.shape == EXPECTED.shape
raise SystemExit(not (alike and np.allclose(got, EXPECTED, rtol=1e-4)))
