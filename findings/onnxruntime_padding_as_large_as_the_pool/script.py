"""onnxruntime moves padding into an AveragePool that does not take so much, and then refuses the model"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[1, 1, 3, 4] x) => (float[1, 1, 1, 8] y)
<int64[8] amounts = {0, 0, 0, 3, 0, 0, 0, 3}, float zero = {0}> {
  padded = Pad (x, amounts, zero)
  y = AveragePool <kernel_shape: ints = [3, 3]> (padded)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)}
expected = ReferenceEvaluator(MODEL).run(None, FEEDS)[0]

try:
    got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise SystemExit(1) from None
print("got", got.tolist(), "expected", expected.tolist())
raise SystemExit(not np.allclose(got, expected))
