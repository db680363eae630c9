"""onnxruntime's Reshape refuses a -1 for a tensor without elements that has only one possible size"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[n, 2, 3] x) => (float[n, k] y) {
  s = Constant <value = int64[2] {0, -1}> ()
  y = Reshape (x, s)
}
""")
FEEDS = {"x": np.zeros((0, 2, 3), np.float32)}
EXPECTED = np.zeros((0, 6), np.float32)

try:
    got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
except Exception as error:
    raise SystemExit(f"{str(error)[:150]}")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
