"""onnx.reference's LRN sums the squares of too few channels"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[1, 3, 1, 1] x) => (float[1, 3, 1, 1] y) {
  y = LRN <size = 3, alpha = 3.0, beta = 1.0> (x)
}
""")
FEEDS = {"x": np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1)}
EXPECTED = np.array([1 / 6, 2 / 15, 3 / 14], np.float32).reshape(1, 3, 1, 1)

got = np.asarray(ReferenceEvaluator(MODEL).run(None, FEEDS)[0])
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED))
