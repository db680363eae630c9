"""AveragePool(11) divides the last windows of ceil_mode by cells that are beyond the padding."""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[1, 1, 4, 4] x) => (float[1, 1, 3, 3] y) {
  y = AveragePool <
    kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1, count_include_pad = 1
  > (x)
}
""")
FEEDS = {"x": np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)}
EXPECTED = np.array([[[[1.5555556, 3.3333333, 2.0], [6.3333335, 11.0, 6.0], [4.5, 7.5, 4.0]]]])

session = onnxruntime.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
got = session.run(None, FEEDS)[0]
print("got     ", got.tolist())
print("expected", EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, 1e-4, 1e-4, equal_nan=True))
