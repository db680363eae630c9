"""jaxonnxruntime rounds quotients of integers down"""

import jax
import jaxonnxruntime.backend
import numpy as np
import onnx.parser

jax.config.update("jax_enable_x64", True)

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (int64[4] x, int64[4] z) => (int64[4] y) {
  y = Div (x, z)
}
""")
FEEDS = {"x": np.array([7, -7, 7, -7]), "z": np.array([2, 2, -2, -2])}
EXPECTED = np.array([3, -3, -3, 3])

got = np.asarray(jaxonnxruntime.backend.prepare(MODEL).run(list(FEEDS.values()))[0])
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(got.dtype != EXPECTED.dtype or got.shape != EXPECTED.shape or not np.array_equal(got, EXPECTED))
