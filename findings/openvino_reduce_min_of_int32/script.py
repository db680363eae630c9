"""OpenVINO computes ReduceMin of int32 in float32, so that the greatest number becomes the least"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (int32[2] x) => (int32[1] y) {
  y = ReduceMin <axes = [0], keepdims = 1> (x)
}
""")
FEEDS = {"x": np.full(2, 2**31 - 1, np.int32)}
EXPECTED = np.full(1, 2**31 - 1, np.int32)

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
