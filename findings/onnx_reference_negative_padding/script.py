"""onnx.reference does not pad by a negative number"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[3] x) => (float[2] y) {
  p = Constant <value = int64[2] {-1, 0}> ()
  y = Pad (x, p)
}
""")
FEEDS = {"x": np.arange(3, dtype=np.float32)}
EXPECTED = np.array([1, 2], np.float32)

try:
    got = ReferenceEvaluator(MODEL).run(None, FEEDS)[0]
except Exception as error:
    raise SystemExit(f"{type(error).__name__}: {str(error)[:150]}")
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
