"""OpenVINO computes with float64 in float32"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (double[2] x, double[2] y) => (double[2] z) {
  z = Add (x, y)
}
""")
FEEDS = {"x": np.array([1.0, 2.0]), "y": np.array([1e-10, 1e-12])}
EXPECTED = np.array([1.0 + 1e-10, 2.0 + 1e-12])

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.allclose(got, EXPECTED, rtol=1e-15, atol=0))
