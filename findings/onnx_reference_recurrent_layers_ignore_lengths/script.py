"""onnx.reference runs LSTM, GRU and RNN over all steps, beyond the lengths of the sequences"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

# A layer with one weight for each of its gates, over two sequences, of which the second ends after its first step.
MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
main (float[2,2,1] x, float[1,{gates},1] w, float[1,{gates},1] r, int32[2] lengths) => (float[1,2,1] last) {{
  _, last = {op} <hidden_size = 1> (x, w, r, , lengths)
}}
"""
X = np.ones((2, 2, 1), np.float32)
ended_early = []
for op, gates in {"RNN": 1, "GRU": 3, "LSTM": 4}.items():
    weights = np.ones((1, gates, 1), np.float32)
    layer = ReferenceEvaluator(onnx.parser.parse_model(MODEL.format(op=op, gates=gates)))
    feeds = {"w": weights, "r": weights}
    got = layer.run(None, {"x": X, "lengths": np.array([2, 1], np.int32), **feeds})[0]
    expected = layer.run(None, {"x": X[:1], "lengths": np.array([1, 1], np.int32), **feeds})[0]
    ended_early.append(np.array_equal(got[0, 1], expected[0, 1]))
    print(op, "after the last step of the second sequence:", got[0, 1].tolist(), "expected", expected[0, 1].tolist())
raise SystemExit(not all(ended_early))
