"""onnxruntime makes a padding with zeros of float64 part of a maximum pooling, which pads with nothing"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (double[1, 1, 2, 2] x) => (double[1, 1, 2, 2] y) <int64[8] amounts = {0, 0, 1, 1, 0, 0, 1, 1}> {
  padded = Pad (x, amounts)
  y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (padded)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.full((1, 1, 2, 2), -1.0)}
EXPECTED = np.zeros((1, 1, 2, 2))

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.array_equal(got, EXPECTED))
