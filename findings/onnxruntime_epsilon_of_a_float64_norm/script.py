"""onnxruntime's optimiser replaces the epsilon of a float64 norm by 1e-5"""

import numpy as np
import onnx.parser
import onnxruntime as ort

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (double[1,4] x) => (double[1,4] y)
  <double[4] w = {1, 1, 1, 1}, double two = {2}, double e = {0.0001}, int64[1] axis = {1}> {
  square = Pow (x, two)
  mean = ReduceMean <keepdims = 1> (square, axis)
  sum = Add (mean, e)
  root = Sqrt (sum)
  normal = Div (x, root)
  y = Mul (normal, w)
}
""")
FEEDS = {"x": np.array([[1.0, 2.0, 3.0, 5.0]])}

plain = ort.SessionOptions()
plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
(fused, expected) = (
    ort.InferenceSession(MODEL.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, FEEDS)[0]
    for options in (ort.SessionOptions(), plain)
)
print("optimized    ", fused.tolist())
print("not optimized", expected.tolist())
raise SystemExit(not np.allclose(fused, expected, rtol=1e-12))
