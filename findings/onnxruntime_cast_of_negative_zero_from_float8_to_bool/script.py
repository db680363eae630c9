"""onnxruntime casts -0.0 of float8 to true"""

import ml_dtypes
import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

MODEL = onnx.parser.parse_model("""
<ir_version: 9, opset_import: ["" : 19]>
main (float[n] x) => (bool[n] y) { small = Cast <to = 19> (x)    y = Cast <to = 9> (small) }
""")
onnx.checker.check_model(MODEL, full_check=True)
X = np.array([-0.0, 0.0, 1.0], np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": X})[0]
print("onnxruntime", got.tolist())
print("reference  ", ReferenceEvaluator(MODEL).run(None, {"x": X})[0].tolist())
print("numpy      ", X.astype(ml_dtypes.float8_e5m2).astype(bool).tolist())
raise SystemExit(not np.array_equal(got, X != 0))
