"""onnxruntime adds int64 in float64 in ReduceSum"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (int64[2] x) => (int64 y) {
  axes = Constant <value = int64[1] {0}> ()
  y = ReduceSum <keepdims = 0> (x, axes)
}
""")
FEEDS = {"x": np.array([2**53, 1])}
EXPECTED = np.array(2**53 + 1)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
