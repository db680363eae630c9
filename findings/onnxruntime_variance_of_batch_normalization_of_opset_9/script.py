"""onnxruntime's BatchNormalization 9 returns the inverse of the standard deviation as saved_var"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 9]>
main (float[4,1] x) => (float[1] saved_var) <
  float[1] scale = {1.0}, float[1] bias = {0.0}, float[1] mean = {0.0}, float[1] variance = {1.0}
> {
  y, running_mean, running_var, saved_mean, saved_var = BatchNormalization (x, scale, bias, mean, variance)
}
""")
X = np.array([[0], [0], [4], [4]], np.float32)
#: Of the population; that of a sample would be 16/3.
EXPECTED = np.array([4.0], np.float32)

got = np.asarray(onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": X})[0])
print("got     ", got.dtype, got.shape, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.shape, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, equal_nan=True))
