"""OpenCV's upper triangle of a tall matrix has elements below the diagonal"""

import cv2
import numpy as np
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[4,3] x) => (float[4,3] y) {
  y = Trilu <upper = 1> (x)
}
""")
FEEDS = {"x": np.ones((4, 3), np.float32)}
EXPECTED = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]], np.float32)

net = cv2.dnn.readNetFromONNX(np.frombuffer(MODEL.SerializeToString(), np.uint8))
for name, value in FEEDS.items():
    net.setInput(value, name)
got = net.forward("y")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
