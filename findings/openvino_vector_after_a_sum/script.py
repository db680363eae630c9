"""OpenVINO adds a vector along the wrong axis after a sum over the last one"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[2,2,4] x) => (float[2,2] y) {
  axes = Constant <value = int64[1] {2}> ()
  bias = Constant <value = float[2] {10.0, 20.0}> ()
  sum = ReduceSum <keepdims = 0> (x, axes)
  y = Add (sum, bias)
}
""")
FEEDS = {"x": np.ones((2, 2, 4), np.float32)}
EXPECTED = np.array([[14, 24], [14, 24]], np.float32)

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
