"""tract does not scatter at negative indices"""

import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import tract

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[3] x, int64[1,1] i, float[1] u) => (float[3] y) {
  y = ScatterND (x, i, u)
}
""")
FEEDS = {"x": np.zeros(3, np.float32), "i": np.array([[-1]]), "u": np.ones(1, np.float32)}
EXPECTED = np.array([0, 0, 1], np.float32)

try:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(MODEL, path)
        model = tract.onnx().load(path).into_model().into_runnable()
    got = model.run(list(FEEDS.values()))[0].to_numpy()
except Exception as error:
    # What follows is where it was raised.
    raise SystemExit(f"{type(error).__name__}: {' '.join(str(error).partition('Stack backtrace')[0].split())}")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
