"""onnxruntime aborts the process if an LSTM or a GRU is given no sequences"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[1, N, 1] x) => (float[1, 1, N, 1] y) <float[1, 4, 1] w = {1, 1, 1, 1}, float[1, 4, 1] r = {1, 1, 1, 1}> {
  y = LSTM <hidden_size = 1> (x, w, r)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.zeros((1, 0, 1), np.float32)}
EXPECTED = np.zeros((1, 1, 0, 1), np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.shape)
print("expected", EXPECTED.dtype, EXPECTED.shape)
raise SystemExit(got.shape != EXPECTED.shape)
