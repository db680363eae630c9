"""onnxruntime's Where returns 0.0 for a chosen -0.0"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 16]>
main (bool[1] c, float[1] x, float[1] y) => (float[1] z) {
  z = Where (c, x, y)
}
""")
FEEDS = {"c": np.array([True]), "x": np.array([-0.0], np.float32), "y": np.array([1.0], np.float32)}
EXPECTED = np.array([-0.0], np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.array_equal(np.signbit(got), np.signbit(EXPECTED)))
