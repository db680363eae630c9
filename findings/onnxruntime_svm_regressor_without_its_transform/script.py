"""onnxruntime's SVMRegressor applies no post_transform"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

NODE = helper.make_node(
    "SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", kernel_type="LINEAR", coefficients=[1.0], rho=[0.5],
    kernel_params=[0.0, 0.0, 0.0], post_transform="LOGISTIC",
)  # fmt: skip
VALUES = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in ("x", "y")]
MODEL = helper.make_model(
    helper.make_graph([NODE], "svm", VALUES[:1], VALUES[1:]),
    opset_imports=[helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 13)], ir_version=7,
)  # fmt: skip
X = np.array([[1.0]], np.float32)
EXPECTED = np.array([[1 / (1 + np.exp(-1.5))]], np.float32)

got = np.asarray(onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": X})[0])
print("got     ", got.dtype, got.shape, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.shape, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, equal_nan=True))
