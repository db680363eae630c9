"""onnxruntime ends the process if it normalizes transposed instances without elements"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 18]>
main (float[2, n, 3] x, float[3] scale, float[3] shift) => (float[2, 3, n] z) {
  y = Transpose <perm = [0, 2, 1]> (x)
  z = InstanceNormalization (y, scale, shift)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.zeros((2, 0, 3), np.float32), "scale": np.ones(3, np.float32), "shift": np.zeros(3, np.float32)}
EXPECTED = np.zeros((2, 3, 0), np.float32)

print("expected", EXPECTED.dtype, EXPECTED.shape, flush=True)
got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.shape)
raise SystemExit(got.shape != EXPECTED.shape)
