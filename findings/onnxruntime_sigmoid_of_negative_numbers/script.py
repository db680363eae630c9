"""onnxruntime's Sigmoid of -15 is wrong by a sixth"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[3] x) => (float[3] y) {
  y = Sigmoid (x)
}
""")
FEEDS = {"x": np.array([-5, -10, -15], np.float32)}
EXPECTED = 1 / (1 + np.exp(-FEEDS["x"]))

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, 1e-3, 0))
