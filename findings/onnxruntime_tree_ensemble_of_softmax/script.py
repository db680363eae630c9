"""onnxruntime's TreeEnsemble takes post_transform SOFTMAX for LOGISTIC, and LOGISTIC for SOFTMAX"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

# One tree of one node, whose leaves are two targets: the first is 2 if the feature is at most 1.
NODE = helper.make_node(
    "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2, tree_roots=[0], post_transform=1,
    nodes_featureids=[0], nodes_modes=helper.make_tensor("modes", TensorProto.UINT8, [1], [0]),
    nodes_splits=helper.make_tensor("splits", TensorProto.FLOAT, [1], [1.0]),
    nodes_truenodeids=[0], nodes_trueleafs=[1], nodes_falsenodeids=[1], nodes_falseleafs=[1],
    leaf_targetids=[0, 1], leaf_weights=helper.make_tensor("weights", TensorProto.FLOAT, [2], [2.0, 3.0]),
)  # fmt: skip
VALUES = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in (("x", 1), ("y", 2))]
MODEL = helper.make_model(
    helper.make_graph([NODE], "tree", VALUES[:1], VALUES[1:]),
    opset_imports=[helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 18)], ir_version=9,
)  # fmt: skip
X = np.array([[0.5]], np.float32)
SCORES = np.array([2.0, 0.0])
EXPECTED = (np.exp(SCORES) / np.exp(SCORES).sum()).astype(np.float32)[None]

got = np.asarray(onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": X})[0])
print("got     ", got.dtype, got.shape, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.shape, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, equal_nan=True))
