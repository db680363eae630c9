"""jaxonnxruntime's sum of int32 is int64"""

import jax
import jaxonnxruntime.backend
import numpy as np
import onnx.parser

jax.config.update("jax_enable_x64", True)

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (int32[2,2] x) => (int32[2] y) {
  axes = Constant <value = int64[1] {0}> ()
  y = ReduceSum <keepdims = 0> (x, axes)
}
""")
FEEDS = {"x": np.array([[1, 2], [3, 4]], np.int32)}
EXPECTED = np.array([4, 6], np.int32)

got = np.asarray(jaxonnxruntime.backend.prepare(MODEL).run(list(FEEDS.values()))[0])
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
