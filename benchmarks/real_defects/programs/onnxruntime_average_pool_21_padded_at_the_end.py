"""AveragePool(19) leaves out the padding at the end of the first axis."""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 21]>
main (float[1, 1, 2, 2] x) => (float[1, 1, 2, 2] y) {
  y = AveragePool <kernel_shape = [2, 2], strides = [1, 1], pads = [0, 0, 1, 1], count_include_pad = 1> (x)
}
""")
FEEDS = {"x": np.ones((1, 1, 2, 2), np.float32)}
EXPECTED = np.array([[[[1.0, 0.5], [0.5, 0.25]]]])

session = onnxruntime.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
got = session.run(None, FEEDS)[0]
print("got     ", got.tolist())
print("expected", EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, 1e-4, 1e-4, equal_nan=True))
