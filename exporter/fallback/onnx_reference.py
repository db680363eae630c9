"""The domain `org.pytorch.aten` for onnx.reference: an operator that torch computes.

onnx.reference.ReferenceEvaluator(model, new_ops=[onnx_parity.exporter.fallback.onnx_reference.ATen])
"""

from __future__ import annotations

from typing import Any

from onnx.helper import get_attribute_value
from onnx.reference.op_run import OpRun

from onnx_parity.exporter.arrays import to_array, to_tensor
from onnx_parity.exporter.fallback.encoding import ATEN_DOMAIN
from onnx_parity.exporter.fallback.torch_call import TorchCall

__all__ = ["ATen"]


class ATen(OpRun):
    """`org.pytorch.aten::ATen`."""

    op_domain = ATEN_DOMAIN

    def _run(self, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        attributes = {attribute.name: get_attribute_value(attribute) for attribute in self.onnx_node.attribute}
        call = TorchCall.of(attributes)
        results = call([None if item is None else to_tensor(item) for item in inputs])
        return tuple(to_array(result) for result in results[: len(self.onnx_node.output)])
