"""onnxruntime makes a LayerNormalization of the norm of one feature whose scale has several, and then refuses it"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[2, 1] x, float[3] scale, float[3] bias) => (float[2, 3] y) <float two = {2}, float little = {1e-5}> {
  mean = ReduceMean <axes = [-1]> (x)
  centred = Sub (x, mean)
  square = Pow (centred, two)
  variance = ReduceMean <axes = [-1]> (square)
  sum = Add (variance, little)
  deviation = Sqrt (sum)
  normal = Div (centred, deviation)
  scaled = Mul (normal, scale)
  y = Add (scaled, bias)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.ones((2, 1), np.float32), "scale": np.ones(3, np.float32), "bias": np.arange(3, dtype=np.float32)}
EXPECTED = np.array([[0, 1, 2], [0, 1, 2]], np.float32)

print("expected", EXPECTED.dtype, EXPECTED.tolist(), flush=True)
got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
raise SystemExit(not np.array_equal(got, EXPECTED))
