"""MaxPool with ceil_mode has a window that begins in the padding."""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 7, opset_import: ["" : 14]>
main (float[1, 2, 3, 6, 5] x) => (float[N, C, D, H, W] y) {
  y = MaxPool <ceil_mode = 1, kernel_shape = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1], strides = [3, 3, 3]> (x)
}
""")
FEEDS = {"x": np.arange(180, dtype=np.float32).reshape(1, 2, 3, 6, 5)}
EXPECTED = np.array([[36, 39, 51, 54, 56, 59], [66, 69, 81, 84, 86, 89]])
EXPECTED = np.stack([EXPECTED, EXPECTED + 90]).reshape(1, 2, 2, 3, 2)

session = onnxruntime.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
got = session.run(None, FEEDS)[0]
print("got     ", got.tolist())
print("expected", EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, 1e-4, 1e-4, equal_nan=True))
