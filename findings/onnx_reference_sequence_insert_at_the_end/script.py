"""onnx.reference's SequenceInsert at the position after the last inserts at the front"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[1] a, float[1] b) => (float[1] y) {
  s = SequenceConstruct (a)
  one = Constant <value = int64 {1}> ()
  t = SequenceInsert (s, b, one)
  y = SequenceAt (t, one)
}
""")
FEEDS = {"a": np.array([1], np.float32), "b": np.array([2], np.float32)}
EXPECTED = np.array([2], np.float32)

got = np.asarray(ReferenceEvaluator(MODEL).run(None, FEEDS)[0])
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
