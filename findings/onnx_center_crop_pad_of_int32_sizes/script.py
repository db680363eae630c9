"""The function of CenterCropPad in ONNX has nodes whose types differ for sizes in int32"""

import onnx
import onnx.inliner
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 18]>
main (float[4] x, int32[1] size) => (float[n] y) {
  y = CenterCropPad <axes = [0]> (x, size)
}
""")

body = onnx.inliner.inline_selected_functions(MODEL, [("", "CenterCropPad")], inline_schema_functions=True)
try:
    onnx.checker.check_model(body, full_check=True)
except onnx.shape_inference.InferenceError as error:
    print(str(error).strip().splitlines()[0])
    raise SystemExit(1) from None
