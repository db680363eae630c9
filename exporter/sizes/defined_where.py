"""Conditions on sizes where PyTorch's kernel computes what an operator is defined to compute. Elsewhere it returns
something else, such as memory that it has not written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.graph.origin import OriginFinder, refused_here
from onnx_parity.exporter.sizes.answers import Answer

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["defined_where"]


def defined_where(condition: Any, otherwise: str) -> None:
    """Note that the model is the program's where a condition on sizes holds, and what PyTorch does otherwise. Refuses a
    call for whose example it does not hold. Sizes that depend on values are taken to be such that it holds."""
    if isinstance(condition, torch.SymBool):
        symbols: Symbols = condition.node.shape_env
        question = condition.node.expr
        if not symbols.is_of_inputs(question) or symbols.known(question) or symbols.holds_here(question):
            return
        if condition := symbols.holds_in_example(question):
            origin = OriginFinder(None).find()
            symbols.kernels.append(Answer(question, True, origin, by_user=False, otherwise=otherwise))
    if not condition:
        raise refused_here(f"{otherwise} for these sizes")
