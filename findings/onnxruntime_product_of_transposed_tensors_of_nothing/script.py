"""onnxruntime ends the process if it multiplies transposed tensors whose outer axis is empty"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 18]>
main (float[n, 2, 3] x, float[n, 2, 3] y) => (float[2, n, n] z) {
  a = Transpose <perm = [1, 0, 2]> (x)
  b = Transpose <perm = [1, 2, 0]> (y)
  z = MatMul (a, b)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.zeros((0, 2, 3), np.float32), "y": np.zeros((0, 2, 3), np.float32)}
EXPECTED = np.zeros((2, 0, 0), np.float32)

print("expected", EXPECTED.dtype, EXPECTED.shape, flush=True)
got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.shape)
raise SystemExit(got.shape != EXPECTED.shape)
