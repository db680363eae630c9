"""OpenVINO computes with int64 in 32 bits"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (int64[2] x, int64[1] y) => (bool[2] z) {
  z = Equal (x, y)
}
""")
FEEDS = {"x": np.array([2**62, 5]), "y": np.array([0])}
EXPECTED = np.array([False, False])

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
