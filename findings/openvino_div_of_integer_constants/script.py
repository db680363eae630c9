"""OpenVINO rounds the quotient of two constants of integers to another integer than that of inputs"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (int8[2] x) => (int8[2] z) {
  a = Constant <value = int8[2] {7, -7}> ()
  b = Constant <value = int8 {4}> ()
  c = Div (a, b)
  z = Add (c, x)
}
""")
FEEDS = {"x": np.zeros(2, np.int8)}
EXPECTED = np.array([1, -1], np.int8)

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
