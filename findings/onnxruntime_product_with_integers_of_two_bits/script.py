"""onnxruntime reads the wrong integers of 2 bits where it makes one operator of a DequantizeLinear and a MatMul"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

integers = np.arange(96).reshape(32, 3) % 4
MODEL = onnx.helper.make_model(
    onnx.helper.make_graph(
        [
            onnx.helper.make_node("DequantizeLinear", ["integers", "scales"], ["weight"], axis=0, block_size=16),
            onnx.helper.make_node("MatMul", ["x", "weight"], ["y"]),
        ],
        "main",
        [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32])],
        [onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [
            onnx.helper.make_tensor("integers", TensorProto.UINT2, [32, 3], integers.ravel().tolist()),
            onnx.helper.make_tensor("scales", TensorProto.FLOAT, [2, 3], np.ones(6, np.float32)),
        ],
    ),
    opset_imports=[onnx.helper.make_opsetid("", 25)],
    ir_version=11,
)
onnx.checker.check_model(MODEL)
x = np.arange(32, dtype=np.float32)[None] % 3
EXPECTED = x @ integers.astype(np.float32)

options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # Rounds nothing.
got = onnxruntime.InferenceSession(MODEL.SerializeToString(), options).run(None, {"x": x})[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.allclose(got, EXPECTED))
