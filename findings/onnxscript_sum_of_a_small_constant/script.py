"""onnxscript's optimiser takes a small constant for 0, and removes its addition"""

import numpy as np
import onnx.parser
import onnx.reference
import onnxscript.optimizer

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (double[2] x) => (double[2] y) {
  c = Constant <value = double {0.000000001}> ()
  y = Add (x, c)
}
""")
FEEDS = {"x": np.array([0.0, 1e-9])}
EXPECTED = np.array([1e-9, 2e-9])

optimised = onnxscript.optimizer.optimize(MODEL)
got = onnx.reference.ReferenceEvaluator(optimised).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.allclose(got, EXPECTED, rtol=1e-12, atol=0))
