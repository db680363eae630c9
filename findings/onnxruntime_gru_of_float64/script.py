"""onnxruntime's GRU of float64 fails when it is run"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 14]>
main (double[1, 1, 1] x, double[1, 3, 1] w, double[1, 3, 1] r) => (double[1, 1, 1, 1] y) {
  y = GRU <hidden_size = 1> (x, w, r)
}
""")
FEEDS = {"x": np.zeros((1, 1, 1)), "w": np.zeros((1, 3, 1)), "r": np.zeros((1, 3, 1))}
EXPECTED = np.zeros((1, 1, 1, 1))

try:
    got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
except Exception as error:
    raise SystemExit(f"{type(error).__name__}: {str(error)[:150]}")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.array_equal(got, EXPECTED))
