"""OpenVINO does not take the first of equal elements"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[9] x) => (int64[9] i) {
  k = Constant <value = int64[1] {9}> ()
  v, i = TopK (x, k)
}
""")
FEEDS = {"x": np.array([1, 2, 1, 2, 1, 2, 1, 2, 1], np.float32)}
EXPECTED = np.array([1, 3, 5, 7, 0, 2, 4, 6, 8])

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
