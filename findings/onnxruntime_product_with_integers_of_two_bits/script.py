"""onnxruntime reads the wrong integers of 2 bits where it makes one operator of a DequantizeLinear and a MatMul"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 11, opset_import: ["" : 25]>
main (float[1, 32] x) => (float[1, 3] y) {
  weight = DequantizeLinear <axis = 0, block_size = 16> (integers, known)
  y = MatMul (x, weight)
}
""")
integers = np.arange(96).reshape(32, 3) % 4
MODEL.graph.initializer.extend(
    [
        onnx.helper.make_tensor("integers", onnx.TensorProto.UINT2, [32, 3], integers.ravel().tolist()),
        onnx.helper.make_tensor("known", onnx.TensorProto.FLOAT, [2, 3], [1.0] * 6),
    ]
)
x = np.arange(32, dtype=np.float32)[None] % 3
EXPECTED = x @ integers.astype(np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": x})[0]
print("got     ", got.dtype, got.round().tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.allclose(got, EXPECTED, atol=1))
