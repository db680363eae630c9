"""OpenVINO finds the lowest finite number in a row of minus infinities"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2,2] x) => (float[2,1] y) {
  axes = Constant <value = int64[1] {1}> ()
  y = ReduceMax <keepdims = 1> (x, axes)
}
""")
FEEDS = {"x": np.array([[-np.inf, -np.inf], [1, -np.inf]], np.float32)}
EXPECTED = np.array([[-np.inf], [1]], np.float32)

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
