"""Min returns the second of two numbers if that is one number and the first is NaN."""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[N, 1] x) => (float[N, 1] y) {
  bound = Constant <value = float[1] {10.0}> ()
  y = Min (x, bound)
}
""")
FEEDS = {"x": np.array([[np.nan], [3.0], [20.0]], np.float32)}
EXPECTED = np.array([[np.nan], [3.0], [10.0]])

session = onnxruntime.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
got = session.run(None, FEEDS)[0]
print("got     ", got.tolist())
print("expected", EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, 1e-4, 1e-4, equal_nan=True))
