"""Everything that depends on the target opset. Each method of `Forms` adds the nodes that the target opset has for it.

Opsets differ in whether axes are an attribute or an input; in Slice, Pad, Clip, Split and Resize; in Softmax before
opset 13; in Where before opset 9; and in the operators that were added later. An operator that is missing at the target
opset is composed of operators that it has. If that is not possible, the method raises `Unsupported`, which names the
first opset that can express it. Lowerings call these methods and never read `g.opset` themselves. There is one module
for each group of operators.
"""

from onnx_parity.exporter.lowering.opsets.axes_input import AxesForms
from onnx_parity.exporter.lowering.opsets.bitwise import BitwiseForms
from onnx_parity.exporter.lowering.opsets.comparing import ComparisonForms
from onnx_parity.exporter.lowering.opsets.control_flow import ControlFlowForms
from onnx_parity.exporter.lowering.opsets.cumulative import CumulativeForms
from onnx_parity.exporter.lowering.opsets.division import DivisionForms
from onnx_parity.exporter.lowering.opsets.elementary import ElementaryForms
from onnx_parity.exporter.lowering.opsets.expression_forms import ExpressionForms
from onnx_parity.exporter.lowering.opsets.matmul import MatmulForms
from onnx_parity.exporter.lowering.opsets.norms import NormForms
from onnx_parity.exporter.lowering.opsets.padding import PaddingForms
from onnx_parity.exporter.lowering.opsets.random import RandomForms
from onnx_parity.exporter.lowering.opsets.reshaping import ReshapeForms
from onnx_parity.exporter.lowering.opsets.sequences import SequenceForms
from onnx_parity.exporter.lowering.opsets.slice_split import SliceForms
from onnx_parity.exporter.lowering.opsets.softmax import SoftmaxForms
from onnx_parity.exporter.lowering.opsets.spatial import SpatialForms
from onnx_parity.exporter.lowering.opsets.top_k import TopKForms

__all__ = ["Forms"]


class Forms(
    AxesForms,
    BitwiseForms,
    ComparisonForms,
    ControlFlowForms,
    CumulativeForms,
    DivisionForms,
    ElementaryForms,
    ExpressionForms,
    MatmulForms,
    NormForms,
    PaddingForms,
    RandomForms,
    ReshapeForms,
    SequenceForms,
    SliceForms,
    SoftmaxForms,
    SpatialForms,
    TopKForms,
):
    """The methods of `g` whose result depends on the opset."""
