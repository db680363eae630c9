"""onnxruntime's Gemm over an axis without elements returns C without its factor beta"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[1, 0] a, float[0, 1] b, float[1, 1] c) => (float[1, 1] y) {
  y = Gemm <beta = 3.0> (a, b, c)
}
""")
FEEDS = {"a": np.zeros((1, 0), np.float32), "b": np.zeros((0, 1), np.float32), "c": np.ones((1, 1), np.float32)}
EXPECTED = np.full((1, 1), 3, np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
