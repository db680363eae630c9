"""onnxruntime's optimiser removes a scaled tensor that is used, if it is multiplied by a scaled copy of itself"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2, 2] x) => (float[2, 2] y) <float scale = {0.5}> {
  q = Mul (x, scale)
  scaled = Mul (q, scale)
  turned = Transpose <perm = [1, 0]> (q)
  product = MatMul (scaled, turned)
  y = MatMul (product, q)
}
""")
FEEDS = {"x": np.eye(2, dtype=np.float32)}
EXPECTED = np.eye(2, dtype=np.float32) / 16

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
