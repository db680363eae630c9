"""onnx.inliner loses attributes of functions of the schemas that are left out"""

import onnx
import onnx.inliner
import onnx.parser

MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 22]>
main (float[3] x) => (float[3] y) {
  y = LeakyRelu (x)
}
""")

body = onnx.inliner.inline_selected_functions(MODEL, [("", "LeakyRelu")], inline_schema_functions=True)
constants = [node for node in body.graph.node if node.op_type == "Constant"]
print("got     ", [[attribute.name for attribute in node.attribute] for node in constants])
print("expected one for each")
raise SystemExit(not all(node.attribute for node in constants))
