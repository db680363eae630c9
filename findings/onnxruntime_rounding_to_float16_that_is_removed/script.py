"""onnxruntime compares numbers that a Cast has rounded to float16 with ones that it leaves unrounded"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 16]>
main (float[3] x, int64[3] i) => (bool[3] y) {
  half = Cast <to: int = 10> (x)
  same = Gather (half, i)
  y = Equal (same, half)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.array([0.1, 1 / 3, 2.0], np.float32), "i": np.array([0, 1, 2])}
EXPECTED = np.array([True, True, True])

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got", got, "expected", EXPECTED)
raise SystemExit(not np.array_equal(got, EXPECTED))
