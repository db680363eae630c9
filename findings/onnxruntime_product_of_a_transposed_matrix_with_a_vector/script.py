"""onnxruntime's product of a transposed matrix with a vector is wrong"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2, 2] x, float[2] v) => (float[2] y) {
  t = Transpose <perm = [1, 0]> (x)
  y = MatMul (t, v)
}
""")
FEEDS = {"x": np.array([[0, 3], [-1, 0]], np.float32), "v": np.array([-1, 1], np.float32)}
EXPECTED = FEEDS["x"].T @ FEEDS["v"]

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
