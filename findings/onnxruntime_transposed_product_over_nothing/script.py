"""onnxruntime leaves the product with transposed tensors unset if the axis that it sums over is empty"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[m, 3, 3] w, float[2, n, 3] x) => (float[2, 3, 3] y, float[m, 3, 3] z) {
  v = Mul (w, w)
  u = Add (v, w)
  z = Mul (u, u)
  a = Transpose <perm = [0, 2, 1]> (x)
  y = MatMul (a, x)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"w": np.full((2, 3, 3), 2, np.float32), "x": np.zeros((2, 0, 3), np.float32)}
EXPECTED = [0.0]

session = onnxruntime.InferenceSession(MODEL.SerializeToString())
# What the memory holds that is left unset differs from run to run: that of u after the first.
got = sorted({float(number) for _ in range(20) for number in session.run(["y"], FEEDS)[0].ravel()})
print("is zero ", got == EXPECTED)
raise SystemExit(got != EXPECTED)
