"""onnxruntime's Resize crops no axis whose size stays as it is"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
main (float[1,1,3,4] x) => (float[1,1,3,3] y) <
  float[8] roi = {0.0, 0.0, 0.25, 0.0, 1.0, 1.0, 0.75, 1.0}, int64[4] sizes = {1, 1, 3, 3}
> {
  y = Resize <coordinate_transformation_mode = "tf_crop_and_resize", mode = "linear"> (x, roi, , sizes)
}
""")
X = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
EXPECTED = np.array([[[[2.0, 3.5, 5.0], [4.0, 5.5, 7.0], [6.0, 7.5, 9.0]]]], np.float32)

got = np.asarray(onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, {"x": X})[0])
print("got     ", got.dtype, got.shape, got.tolist())
print("expected", EXPECTED.dtype, EXPECTED.shape, EXPECTED.tolist())
raise SystemExit(got.shape != EXPECTED.shape or not np.allclose(got, EXPECTED, equal_nan=True))
