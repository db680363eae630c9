"""onnxruntime's Gather of rows of strings loses all but the first string of each"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (string[3, 2] x, int64[2] i) => (string[2, 2] y) {
  y = Gather (x, i)
}
""")
FEEDS = {"x": np.array([["a", "b"], ["c", "d"], ["e", "f"]], object), "i": np.array([2, 0])}
EXPECTED = np.array([["e", "f"], ["a", "b"]], object)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
