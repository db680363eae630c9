"""Where ONNX versions differ. Each method emits the right form for the target opset; lowerings never ask which it is.

What came late is written out in terms of what was there before. What cannot be said at all raises `Unsupported`
with the first opset that can. One module a theme.
"""

from exporter.lowering.opsets.axes import AxesForms
from exporter.lowering.opsets.bits import BitForms
from exporter.lowering.opsets.branches import BranchForms
from exporter.lowering.opsets.choosing import ChoiceForms
from exporter.lowering.opsets.elementary import ElementaryForms
from exporter.lowering.opsets.late import LateForms
from exporter.lowering.opsets.lists import ListForms
from exporter.lowering.opsets.norms import NormForms
from exporter.lowering.opsets.ordering import OrderForms
from exporter.lowering.opsets.padding import PaddingForms
from exporter.lowering.opsets.parts import PartForms
from exporter.lowering.opsets.products import ProductForms
from exporter.lowering.opsets.reals import RealForms
from exporter.lowering.opsets.resizing import ResizeForms
from exporter.lowering.opsets.sizes import SizeForms

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
