"""onnxslim takes a fraction that a condition on sizes selects for a whole number"""

import numpy as np
import onnx.parser
import onnx.reference
import onnxslim

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[n] x) => (float[n] y) <float one = {1}, float half = {0.5}, int64[1] first = {0}, int64 two = {2}> {
  shape = Shape(x)
  size = Squeeze(shape, first)
  doubled = Mul(size, two)
  same = Equal(size, doubled)
  factor = Where(same, one, half)
  y = Mul(x, factor)
}
""")
FEEDS = {"x": np.array([2, 4, 6], np.float32)}
EXPECTED = np.array([1, 2, 3], np.float32)

slim = onnxslim.slim(MODEL)
got = onnx.reference.ReferenceEvaluator(slim).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.array_equal(got, EXPECTED))
