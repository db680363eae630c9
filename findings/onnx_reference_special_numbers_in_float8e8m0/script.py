"""onnx.reference's Cast to float8e8m0 makes no bounds of infinity and of numbers that are too small"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 13, opset_import: ["" : 28]>
main (float[2] x) => (float8e8m0[2] y) {
  y = Cast <to = 24> (x)
}
""")
X = np.array([np.inf, 1e-45], np.float32)
EXPECTED = np.array([2.0**127, 2.0**-127])

got = np.asarray(ReferenceEvaluator(MODEL).run(None, {"x": X})[0]).astype(np.float64)
print("got     ", got.tolist())
print("expected", EXPECTED.tolist())
raise SystemExit(not np.array_equal(got, EXPECTED))
