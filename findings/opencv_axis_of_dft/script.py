"""OpenCV's DFT takes axis 1, whichever axis its input names"""

import cv2
import numpy as np
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 9, opset_import: ["" : 20]>
main (float[1,2,2,2] x) => (float[1,2,2,2] y) {
  axis = Constant <value_int = 2> ()
  y = DFT (x, , axis)
}
""")
FEEDS = {"x": np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)}
EXPECTED = np.array([[[[2, 4], [-2, -2]], [[10, 12], [-2, -2]]]], np.float32)

net = cv2.dnn.readNetFromONNX(np.frombuffer(MODEL.SerializeToString(), np.uint8))
for name, value in FEEDS.items():
    net.setInput(value, name)
got = net.forward("y")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.allclose(got, EXPECTED))
