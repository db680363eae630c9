"""The results of a script, as the Python objects that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Holds
from onnx_parity.exporter.graph.list_primitives import OPTIONAL
from onnx_parity.exporter.recording import recorded_lists
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import EMPTY, Leaf, mark_number
from onnx_parity.exporter.recording.results import TensorList, TensorOrNone
from onnx_parity.exporter.script.values import Maybe, ScriptList
from onnx_parity.exporter.torch_inside import pytree

__all__ = ["results_in_python"]

#: The dtypes of the items of lists that are empty.
_DTYPES_OF_ITEMS = {
    "TensorType": torch.float32, "IntType": torch.int64, "FloatType": torch.float64, "BoolType": torch.bool,
}  # fmt: skip


def results_in_python(blocks: Blocks, results: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    """The results of a script, of which TorchScript knows the types."""
    outputs = [_in_python(blocks, result, kind) for result, kind in zip(results, kinds, strict=True)]
    if blocks.recorder.of_script and all(leaf is None for leaf in pytree.tree_leaves(outputs)):
        # A model has an output, so that empty lists are outputs where a script returns nothing else.
        return [_emptied(blocks, output, kind) for output, kind in zip(outputs, kinds, strict=True)]
    return outputs


def _in_python(blocks: Blocks, value: Any, kind: Any) -> Any:
    """A result as the Python object that the script returns."""
    match value:
        case ScriptList(items=items, stack=None, sequence=None):
            return [_in_python(blocks, item, kind.getElementType()) for item in items]
        case ScriptList(stack=stack, sequence=sequence):
            if EMPTY in (stack, sequence):
                return []
            of_numbers = kind.getElementType().kind() != "TensorType"
            return TensorList(stack if sequence is None else sequence, of_numbers, stacked=sequence is None)
        case tuple():
            return tuple(_in_python(blocks, item, part) for item, part in zip(value, kind.elements(), strict=True))
        case dict():
            return {key: _in_python(blocks, item, kind.getValueType()) for key, item in value.items()}
        case Maybe(present=present, value=inner):
            return _or_none(blocks, present, inner)
        case torch.Tensor() if kind.kind() == "IntType":
            return blocks.number(value)
        case torch.Tensor() if kind.kind() == "FloatType" and not blocks.recorder.of_script:
            # Beside a tensor of ints, Python's float makes float32, and a tensor of float64 does not.
            return blocks.number(value)
        case torch.Tensor() if kind.kind() in ("FloatType", "BoolType", "NumberType"):
            mark_number(value)
    return value


def _emptied(blocks: Blocks, value: Any, kind: Any) -> Any:
    """A result without any leaf, with a list of the graph in the place of each empty list."""
    if isinstance(value, tuple):
        return tuple(_emptied(blocks, item, part) for item, part in zip(value, kind.elements(), strict=True))
    element = _DTYPES_OF_ITEMS.get(kind.getElementType().kind()) if isinstance(value, list) and not value else None
    if element is None:
        return value
    of_numbers = element is not torch.float32
    return TensorList(recorded_lists.make_empty_list(blocks, element), of_numbers, stacked=False)


def _or_none(blocks: Blocks, present: Leaf, value: Any) -> TensorOrNone:
    """A result that may be None, depending on values."""
    if not isinstance(value, torch.Tensor):
        raise blocks.error(
            "the script returns None or another value, depending on values: the other value has to be a tensor"
        )
    made = blocks.recorder.stand_in(value.dtype, tuple(blocks.take(value).shape), holds=Holds.OPTIONAL)
    arguments = {"present": blocks.value(present), "value": blocks.value(value)}
    blocks.recorder.add(OPTIONAL, arguments, [made])
    return TensorOrNone(present, value, blocks.give(made))
