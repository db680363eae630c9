"""OpenCV's mean over the first and the last axes mixes what lies between them"""

import cv2
import numpy as np
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[3,2,1,1] x) => (float[1,2,1,1] y) {
  axes = Constant <value = int64[3] {0, 2, 3}> ()
  y = ReduceMean (x, axes)
}
""")
FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1) ** 2}
EXPECTED = np.array([[[[20 / 3]], [[35 / 3]]]], np.float32)

net = cv2.dnn.readNetFromONNX(np.frombuffer(MODEL.SerializeToString(), np.uint8))
for name, value in FEEDS.items():
    net.setInput(value, name)
got = net.forward("y")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(
    got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, rtol=1e-5)
)
