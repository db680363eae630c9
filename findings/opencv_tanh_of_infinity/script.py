"""OpenCV's Tanh of infinity is NaN"""

import cv2
import numpy as np
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[16] x) => (float[16] y) {
  y = Tanh (x)
}
""")
# Fewer than 8 elements are computed by other code, which is right.
FEEDS = {"x": np.full(16, np.inf, np.float32)}
EXPECTED = np.ones(16, np.float32)

net = cv2.dnn.readNetFromONNX(np.frombuffer(MODEL.SerializeToString(), np.uint8))
for name, value in FEEDS.items():
    net.setInput(value, name)
got = net.forward("y")
print("got     ", got.dtype, got[:2].tolist())
print("expected", EXPECTED.dtype, EXPECTED[:2].tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
