"""The function of Bernoulli in ONNX draws 1 with the probability of 0"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 15]>
main (float[10000] x) => (float[10000] y) {
  y = Bernoulli <seed = 1.0> (x)
}
""")
FEEDS = {"x": np.full(10000, 0.25, np.float32)}

mean = float(onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0].mean())
print("near 0.25" if abs(mean - 0.25) < 0.05 else "near 0.75" if abs(mean - 0.75) < 0.05 else mean)
raise SystemExit(abs(mean - 0.25) > 0.05)
