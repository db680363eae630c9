"""onnxruntime's DictVectorizer returns two axes"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

NODE = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "c", "b", "z"])
MAP = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
X, Y = helper.make_value_info("x", MAP), helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
MODEL = helper.make_model(
    helper.make_graph([NODE], "map", [X], [Y]),
    opset_imports=[helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 13)], ir_version=7,
)  # fmt: skip
EXPECTED = np.array([4, 8, 0, 0], np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": {"a": 4.0, "c": 8.0}})[0]
print("got     ", got.dtype, got.shape, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.shape, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, equal_nan=True))
