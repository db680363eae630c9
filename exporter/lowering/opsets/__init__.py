"""Where ONNX versions differ. Each method emits the right form for the target opset; lowerings never ask which it is.

What came late is written out in terms of what was there before. What cannot be said at all raises `Unsupported`
with the first opset that can. One module a theme.
"""

from onnx_parity.exporter.lowering.opsets.axes_input import AxesForms
from onnx_parity.exporter.lowering.opsets.bits import BitForms
from onnx_parity.exporter.lowering.opsets.branches import BranchForms
from onnx_parity.exporter.lowering.opsets.comparing import ChoiceForms
from onnx_parity.exporter.lowering.opsets.elementary import ElementaryForms
from onnx_parity.exporter.lowering.opsets.late import LateForms
from onnx_parity.exporter.lowering.opsets.matmul import ProductForms
from onnx_parity.exporter.lowering.opsets.norms import NormForms
from onnx_parity.exporter.lowering.opsets.ordering import OrderForms
from onnx_parity.exporter.lowering.opsets.padding import PaddingForms
from onnx_parity.exporter.lowering.opsets.reals import RealForms
from onnx_parity.exporter.lowering.opsets.resizing import ResizeForms
from onnx_parity.exporter.lowering.opsets.sequences import ListForms
from onnx_parity.exporter.lowering.opsets.shape_arithmetic import SizeForms
from onnx_parity.exporter.lowering.opsets.slice_split import PartForms

__all__ = ["Forms"]


class Forms(
    AxesForms,
    SizeForms,
    PartForms,
    PaddingForms,
    ProductForms,
    RealForms,
    ResizeForms,
    BitForms,
    BranchForms,
    ChoiceForms,
    ElementaryForms,
    LateForms,
    ListForms,
    NormForms,
    OrderForms,
):
    """The half of `g` that knows versions."""
