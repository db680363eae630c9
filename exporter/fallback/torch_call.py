"""A node of the domain `org.pytorch.aten` as a callable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import onnx
import onnx.numpy_helper
import torch

from onnx_parity.exporter.arrays import to_tensor
from onnx_parity.exporter.fallback.encoding import decoded, operator_of
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["TorchCall"]


class TorchCall(msgspec.Struct, frozen=True):
    """An operator of torch with all arguments except the tensors."""

    op: OpOverload
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> TorchCall:
        """The call of a node with these protobuf attributes."""
        plain = {name: _plain(value) for name, value in attributes.items()}
        return cls(operator_of(plain), plain)

    def __call__(self, tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
        """The tensors that the operator returns, with lists flattened."""
        with torch.no_grad():
            result = self.op(**decoded(self.op, self.attributes, tensors))
        return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return to_tensor(onnx.numpy_helper.to_array(value))
    if isinstance(value, (list, tuple)) or (hasattr(value, "__iter__") and not isinstance(value, str)):
        return [_plain(item) for item in value]
    return value
