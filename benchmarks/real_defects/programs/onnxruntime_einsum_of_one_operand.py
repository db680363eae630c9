"""Einsum of one operand that sums an axis before the last is refused or wrong."""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[2, 3, 4] x) => (float[A, B] y) {
  y = Einsum <equation = "ijk->ki"> (x)
}
""")
FEEDS = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
EXPECTED = np.arange(24).reshape(2, 3, 4).sum(1).T

session = onnxruntime.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
got = session.run(None, FEEDS)[0]
print("got     ", got.tolist())
print("expected", EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, 1e-4, 1e-4, equal_nan=True))
