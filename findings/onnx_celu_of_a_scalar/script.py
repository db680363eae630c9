"""The function of Celu 12 in ONNX makes a vector of a scalar"""

import numpy as np
import onnx
import onnx.inliner
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 12]>
main (float x) => (float y) {
  y = Celu <alpha = 1.0> (x)
}
""")
X = np.array(2.0, np.float32)
EXPECTED = np.array(2.0, np.float32)

body = onnx.inliner.inline_selected_functions(MODEL, [("", "Celu")], inline_schema_functions=True)
got = np.asarray(ReferenceEvaluator(body).run(None, {"x": X})[0])
print("got     ", got.dtype, got.shape, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.shape, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, equal_nan=True))
