"""OpenVINO takes the lowest finite number for the greatest of minus infinities in a window"""

import numpy as np
import onnx.parser
import openvino

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[1,1,2,2] x) => (float[1,1,1,2] y) {
  y = MaxPool <kernel_shape = [2, 1]> (x)
}
""")
FEEDS = {"x": np.array([[[[-np.inf, 1], [-np.inf, 2]]]], np.float32)}
EXPECTED = np.array([[[[-np.inf, 2]]]], np.float32)

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
