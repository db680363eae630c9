"""onnxruntime's Softplus of float16 is infinite from 88.75 on"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float16[n] x) => (float16[n] y) { y = Softplus (x) }
""")
onnx.checker.check_model(MODEL, full_check=True)
X = np.array([3, 88, 89, 300, 60000], np.float16)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": X})[0]
expected = np.logaddexp(X.astype(np.float64), 0)
print("onnxruntime", got.tolist())
print("expected   ", expected.round(3).tolist())
raise SystemExit(not np.allclose(got, expected, rtol=1e-2))
