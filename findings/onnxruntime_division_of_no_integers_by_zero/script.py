"""onnxruntime refuses to divide no integers by zero"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (int64[N] x, int64 by) => (int64[N] y) {
  y = Mod (x, by)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.zeros((0,), np.int64), "by": np.array(0)}
EXPECTED = np.zeros((0,), np.int64)

try:
    got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise SystemExit(1) from None
print("got", got.dtype, got.shape, "expected", EXPECTED.dtype, EXPECTED.shape)
raise SystemExit(got.shape != EXPECTED.shape)
