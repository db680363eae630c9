"""onnxruntime refuses a MaxPool of dequantized int8 from opset 21 on"""

import numpy as np
import onnx.checker
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 21]>
main (float[1, 1, 2] x) => (float[1, 1, 2] y) <float scale = {0.5}, int8 zero_point = {3}> {
  quantized = QuantizeLinear (x, scale, zero_point)
  dequantized = DequantizeLinear (quantized, scale, zero_point)
  y = MaxPool <kernel_shape = [1]> (dequantized)
}
""")
onnx.checker.check_model(MODEL, full_check=True)
FEEDS = {"x": np.array([[[1.0, 2.0]]], np.float32)}
EXPECTED = np.array([[[1.0, 2.0]]], np.float32)

try:
    got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise SystemExit(1) from None
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.array_equal(got, EXPECTED))
