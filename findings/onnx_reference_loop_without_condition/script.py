"""onnx.reference takes a missing condition of a Loop for false"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[1] x) => (float[1] y) {
  n = Constant <value = int64 {3}> ()
  t = Constant <value = bool {1}> ()
  y = Loop (n, , x) <body = step (int64 i, bool c, float[1] a) => (bool d, float[1] b) {
    d = Identity (t)
    b = Add (a, a)
  }>
}
""")
FEEDS = {"x": np.ones(1, np.float32)}
EXPECTED = np.full(1, 8, np.float32)

got = ReferenceEvaluator(MODEL).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
