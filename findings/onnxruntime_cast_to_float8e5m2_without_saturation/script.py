"""Cast to float8e5m2 with saturate=0 returns NaN for numbers that are rounded to infinity"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 9, opset_import: ["" : 19]>
main (float[5] x) => (float[5] y) {
  rounded = Cast <to = 19, saturate = 0> (x)
  y = Cast <to = 1> (rounded)
}
""")
X = np.array([60000, 61440, 64000, -65535, 65536], np.float32)
EXPECTED = np.array([57344, np.inf, np.inf, -np.inf, np.inf], np.float32)

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
got = onnxruntime.InferenceSession(MODEL.SerializeToString(), options).run(None, {"x": X})[0]
print("got     ", got)
print("expected", EXPECTED)
raise SystemExit(not np.array_equal(got, EXPECTED))
