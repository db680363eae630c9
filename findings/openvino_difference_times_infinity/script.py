"""OpenVINO multiplies out the product of a difference and infinity, which makes NaN of it"""

import numpy as np
import onnx
import openvino
from onnx import helper, numpy_helper

CONSTANTS = {"one": np.array(1, np.float32), "infinity": np.array(np.inf, np.float32)}
GRAPH = helper.make_graph(
    [helper.make_node("Sub", ["x", "one"], ["d"]), helper.make_node("Mul", ["d", "infinity"], ["y"])],
    "main",
    [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
    [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
    [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items()],
)
MODEL = helper.make_model(GRAPH, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
FEEDS = {"x": np.array([0, 2], np.float32)}
EXPECTED = np.array([-np.inf, np.inf], np.float32)

core = openvino.Core()
model = core.compile_model(core.read_model(MODEL.SerializeToString()), "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
got = model(list(FEEDS.values()))[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or not np.array_equal(got, EXPECTED))
