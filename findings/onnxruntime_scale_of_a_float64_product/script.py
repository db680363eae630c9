"""onnxruntime's optimiser rounds the factor of a float64 product to float32"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (double[1, 1] x, double[1, 1] y) => (double[1, 1] z) {
  c = Constant <value = double {0.1}> ()
  p = MatMul (x, y)
  z = Mul (p, c)
}
""")
FEEDS = {"x": np.ones((1, 1)), "y": np.ones((1, 1))}
EXPECTED = np.full((1, 1), 0.1)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
