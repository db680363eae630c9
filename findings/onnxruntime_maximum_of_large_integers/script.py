"""onnxruntime compares int64 by their lower 32 bits in ReduceMax"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (int64[8] x) => (int64 y) {
  y = ReduceMax <keepdims = 0> (x)
}
""")
FEEDS = {"x": np.array([2**31, 1, 0, 0, 0, 0, 0, 0])}
EXPECTED = np.array(2**31)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
