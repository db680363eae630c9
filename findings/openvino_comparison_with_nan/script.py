"""OpenVINO finds NaN greater than a number"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[5] x, float[1] y) => (bool[5] z) {
  z = Greater (x, y)
}
""")
FEEDS = {"x": np.array([np.nan, 1, -1, 2, -2], np.float32), "y": np.zeros(1, np.float32)}
EXPECTED = np.array([False, True, False, True, False])

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
