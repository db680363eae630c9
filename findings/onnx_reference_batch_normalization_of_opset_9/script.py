"""onnx.reference's BatchNormalization of opset 9 mixes the statistics of the batch into those that it is given"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 4, opset_import: ["" : 9]>
main (float[2, 1] x, float[1] s, float[1] b, float[1] m, float[1] v) => (float[2, 1] y) {
  y = BatchNormalization <epsilon = 0.0> (x, s, b, m, v)
}
""")
FEEDS = {
    "x": np.array([[1], [3]], np.float32),
    **{name: np.array([value], np.float32) for name, value in {"s": 1, "b": 0, "m": 0, "v": 1}.items()},
}
EXPECTED = np.array([[1], [3]], np.float32)

got = np.asarray(ReferenceEvaluator(MODEL).run(None, FEEDS)[0])
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED))
