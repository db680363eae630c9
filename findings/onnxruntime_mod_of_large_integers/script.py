"""onnxruntime computes Mod of int64 with fmod=1 in float64"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (int64[1] x, int64[1] y) => (int64[1] z) {
  z = Mod <fmod = 1> (x, y)
}
""")
FEEDS = {"x": np.array([2**53 + 1]), "y": np.array([2**54])}
EXPECTED = np.array([2**53 + 1])

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
