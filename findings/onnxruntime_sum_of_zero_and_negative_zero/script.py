"""onnxruntime's -0.0 + 0.0 is -0.0"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[1] x) => (float[1] y) <float zero = {0}> {
  negative = Neg (x)
  sum = Add (negative, zero)
  y = Reciprocal (sum)
}
""")
FEEDS = {"x": np.zeros(1, np.float32)}
EXPECTED = np.array([np.inf], np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
