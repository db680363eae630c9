"""onnxruntime removes a cast there and back whose result only a branch reads, and then misses the result"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[n] x, bool which) => (float[n] y) {
  wide = Cast <to = 11> (x)
  back = Cast <to = 1> (wide)
  y = If (which) <
    then_branch = then_graph () => (float[n] a) { a = Add (back, back) },
    else_branch = else_graph () => (float[n] b) { b = Neg (back) }
  >
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.array([1.5, -2.0], np.float32), "which": np.array(True)}
expected = ReferenceEvaluator(MODEL).run(None, FEEDS)[0]

try:
    got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise SystemExit(1) from None
print("got", got.tolist(), "expected", expected.tolist())
raise SystemExit(not np.array_equal(got, expected))
