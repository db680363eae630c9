"""onnxruntime aborts the process if a FeatureVectorizer is given no rows"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
main (float[N, 2] a, float[N, 3] b) => (float[N, 5] y) {
  y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [2, 3]> (a, b)
}
""")
FEEDS = {"a": np.zeros((0, 2), np.float32), "b": np.zeros((0, 3), np.float32)}
EXPECTED = np.zeros((0, 5), np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.shape)
print("expected", EXPECTED.dtype, EXPECTED.shape)
raise SystemExit(got.shape != EXPECTED.shape)
