"""onnxruntime's fusion of Gelu takes away a product that others use"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[2] x) => (float[2] y, float[2] z)
<float three = {3}, float cubes = {0.044715}, float root = {0.7978846}, float half = {0.5}, float one = {1}> {
  cube = Pow (x, three)    weighed = Mul (cube, cubes)    sum = Add (x, weighed)    inner = Mul (sum, root)
  tanh = Tanh (inner)    cdf = Add (tanh, one)    halved = Mul (x, half)    gelu = Mul (halved, cdf)
  y = Abs (gelu)
  z = Abs (halved)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
X = np.array([1.0, -2.0], np.float32)
GELU = 0.5 * X * (1 + np.tanh(0.7978846 * (X + 0.044715 * X**3)))

try:
    got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": X})[0]
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise SystemExit(1) from None
print("got", got.tolist(), "expected", np.abs(GELU).tolist())
raise SystemExit(not np.allclose(got, np.abs(GELU)))
