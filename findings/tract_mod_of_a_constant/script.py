"""tract computes x mod c where c mod x is asked"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[5] x) => (float[5] y) {
  c = Constant <value = float {7.0}> ()
  y = Mod <fmod = 1> (c, x)
}
""")
FEEDS = {"x": np.array([2, 3, 4, 5, 9], np.float32)}
EXPECTED = np.array([1, 1, 3, 2, 7], np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    onnx.save(MODEL, path)
    model = tract.onnx().load(path).into_model().into_runnable()
got = model.run(list(FEEDS.values()))[0].to_numpy()
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
