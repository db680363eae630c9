"""OpenCV overflows in ReduceLogSumExp"""

import cv2
import numpy as np
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2,2] x) => (float[2,1] y) {
  axes = Constant <value = int64[1] {1}> ()
  y = ReduceLogSumExp (x, axes)
}
""")
FEEDS = {"x": np.full((2, 2), 200, np.float32)}
EXPECTED = np.array([[200.69315], [200.69315]], np.float32)

net = cv2.dnn.readNetFromONNX(np.frombuffer(MODEL.SerializeToString(), np.uint8))
for name, value in FEEDS.items():
    net.setInput(value, name)
got = net.forward("y")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
