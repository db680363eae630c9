"""onnxruntime's Resize ignores the region along an axis whose size stays the same"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 9, opset_import: ["" : 19]>
main (float[1, 1, 3, 4] x, float[8] roi, int64[4] sizes) => (float[1, 1, 3, 2] y) {
  y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, , sizes)
}
""")
FEEDS = {
    "x": np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4),
    "roi": np.array([0, 0, 0.25, 0, 1, 1, 0.75, 1], np.float32),
    "sizes": np.array([1, 1, 3, 2]),
}
EXPECTED = np.array([[[[2, 5], [4, 7], [6, 9]]]], np.float32)

got = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)[0]
print("got     ", got.dtype, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.tolist())
raise SystemExit(not np.allclose(got, EXPECTED))
