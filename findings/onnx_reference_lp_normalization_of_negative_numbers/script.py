"""onnx.reference's LpNormalization with p = 1 sums numbers and not their magnitudes"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[2] x) => (float[2] y) {
  y = LpNormalization <p = 1, axis = 0> (x)
}
""")
FEEDS = {"x": np.array([3, -1], np.float32)}
EXPECTED = np.array([0.75, -0.25], np.float32)

got = np.asarray(ReferenceEvaluator(MODEL).run(None, FEEDS)[0])
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED))
