"""OpenCV's Resize takes the ratio of the sizes for the factor"""

import cv2
import numpy as np
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[1,1,2,5] x) => (float[1,1,2,2] y) {
  factors = Constant <value = float[4] {1.0, 1.0, 1.0, 0.5}> ()
  y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, , factors)
}
""")
FEEDS = {"x": np.arange(10, dtype=np.float32).reshape(1, 1, 2, 5)}
EXPECTED = np.array([[[[0.5, 2.5], [5.5, 7.5]]]], np.float32)

net = cv2.dnn.readNetFromONNX(np.frombuffer(MODEL.SerializeToString(), np.uint8))
for name, value in FEEDS.items():
    net.setInput(value, name)
got = net.forward("y")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(
    got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, rtol=1e-5)
)
