"""onnxruntime's MaxPool returns the lowest finite number for a window of -inf"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 12]>
main (float[1, 1, 2] x) => (float[1, 1, 1] y) {
  y = MaxPool <kernel_shape = [2]> (x)
}
""")
FEEDS = {"x": np.full((1, 1, 2), -np.inf, np.float32)}
EXPECTED = np.full((1, 1, 1), -np.inf, np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
