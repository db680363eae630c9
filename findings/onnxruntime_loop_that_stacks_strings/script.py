"""onnxruntime's Loop loses strings of the values that it stacks"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (int64 n, bool c, string[2] x) => (string[3, 2] y) {
  x_last, y = Loop (n, c, x) <body = body (int64 i, bool c_in, string[2] s) => (bool c_out, string[2] s_out, string[2] t) {
    c_out = Identity (c_in)
    s_out = Identity (s)
    t = Identity (s)
  }>
}
""")
FEEDS = {"n": np.array(3), "c": np.array(True), "x": np.array(["a", "b"], object)}
EXPECTED = np.array([["a", "b"]] * 3, object)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
