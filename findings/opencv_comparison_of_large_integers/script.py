"""OpenCV compares int64 as if they had 32 bits"""

import cv2
import numpy as np
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (int64[2] x, int64[2] z) => (bool[2] y) {
  y = Equal (x, z)
}
""")
FEEDS = {"x": np.array([2**32 + 3, 3]), "z": np.array([3, 3])}
EXPECTED = np.array([False, True])

net = cv2.dnn.readNetFromONNX(np.frombuffer(MODEL.SerializeToString(), np.uint8))
for name, value in FEEDS.items():
    net.setInput(value, name)
got = net.forward("y")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
