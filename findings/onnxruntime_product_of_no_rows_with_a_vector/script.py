"""onnxruntime's MatMul refuses matrices without rows and a vector"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2, n, 5] x, float[5] v) => (float[2, n] y) {
  y = MatMul (x, v)
}
""")
FEEDS = {"x": np.zeros((2, 0, 5), np.float32), "v": np.ones(5, np.float32)}
EXPECTED = np.matmul(FEEDS["x"], FEEDS["v"])

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
