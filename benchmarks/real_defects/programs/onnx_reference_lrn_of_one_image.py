"""onnx.reference's LRN takes the number of images for the number of channels."""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[1, 5, 2, 2] x) => (float[1, 5, 2, 2] y) {
  y = LRN <size = 3, alpha = 1.0, beta = 0.5, bias = 1.0> (x)
}
""")
X = np.ones((1, 5, 2, 2), np.float32)
#: The channels at both ends have one neighbour, the others two.
SUMS = np.array([2, 3, 3, 3, 2]).reshape(1, 5, 1, 1)
EXPECTED = X / np.sqrt(1 + SUMS / 3)

(got,) = map(np.asarray, ReferenceEvaluator(MODEL).run(None, {"x": X}))
print("got     ", got[0, :, 0, 0].tolist())
print("expected", EXPECTED[0, :, 0, 0].tolist())
raise SystemExit(not np.allclose(got, EXPECTED, 1e-4, 1e-4))
