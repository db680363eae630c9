"""LayerNormalization of large equal numbers is NaN."""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[1, 256] x, float[256] scale, float[256] bias) => (float[1, 256] y) {
  y = LayerNormalization <axis = -1, epsilon = 0.00001> (x, scale, bias)
}
""")
FEEDS = {
    "x": np.full((1, 256), 1234.0, np.float32),
    "scale": np.ones(256, np.float32),
    "bias": np.zeros(256, np.float32),
}
EXPECTED = np.zeros((1, 256))

session = onnxruntime.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
got = session.run(None, FEEDS)[0]
print("got     ", got.tolist())
print("expected", EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, 1e-4, 1e-4, equal_nan=True))
