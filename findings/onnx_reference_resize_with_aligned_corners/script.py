"""onnx.reference's Resize with align_corners divides by a size that is no integer"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[4] x) => (float[2] y) {
  scales = Constant <value = float[1] {0.7}> ()
  y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , scales)
}
""")
FEEDS = {"x": np.array([0, 1, 2, 3], np.float32)}
EXPECTED = np.array([0, 3], np.float32)

got = np.asarray(ReferenceEvaluator(MODEL).run(None, FEEDS)[0])
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED))
