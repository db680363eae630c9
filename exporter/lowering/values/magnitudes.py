"""How large the elements of a value may be, as far as the operators that compute it tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.files.lazy_tensors import WeightTensor

__all__ = ["each_row_is_above_the_lowest", "largest_magnitude", "may_have_the_lowest"]

#: Operators whose results have no elements of another magnitude than those of their first input.
_KEEPS = frozenset(
    {
        "Cast", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Neg", "Reshape", "Slice",
        "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
#: How the bounds of the inputs make that of the result. Where has a condition before them.
_COMBINED: dict[str, Callable[[list[float]], float]] = {
    "Add": sum,
    "Sub": sum,
    "Mul": math.prod,
    "Concat": max,
    "Max": max,
    "Min": max,
    "Where": max,
}
#: Operators whose results are not the lowest number.
_NEVER_LOWEST = frozenset(
    {"Conv", "ConvTranspose", "Einsum", "Erf", "Gemm", "LayerNormalization", "MatMul", "Sigmoid", "Softmax", "Tanh"}
)
#: Operators that keep the rows of their input, if its last axis keeps its size.
_KEEPS_ROWS = frozenset({"Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
#: How many operators lie at most between a value and a tensor that is known.
_DEPTH = 24
#: Dtypes of which torch finds the minimum and the maximum.
_WITH_MINIMUM = frozenset(
    {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64}
)
#: Constants of more elements are not read.
_MOST_ELEMENTS = 2**20


def largest_magnitude(value: ir.Value) -> float | None:
    """A number that no element's magnitude exceeds; None if that is not known, or if one may be infinite or NaN.

    Masks of attention are made of biases that are learned and of the lowest number. Parameters are taken for what they
    are now, which does not count as reading them: others may replace them if they are finite. Buffers may be anything.
    """
    return _bound(value, _DEPTH, {})


def each_row_is_above_the_lowest(value: ir.Value) -> bool:
    """Whether each row, along the last axis, is known to have an element above the lowest number of its dtype."""
    dtype = TO_TORCH.get(value.dtype) if value.dtype is not None else None
    if dtype is None or not dtype.is_floating_point:
        return False
    return _rows_have_less(value, torch.finfo(dtype).max, _DEPTH, {})


def may_have_the_lowest(value: ir.Value) -> bool:
    """Whether an element may be the lowest number of its dtype, as in a mask. Products of matrices and functions that
    are bounded do not give it."""
    reached, seen = [value], {value}
    while reached:
        each = reached.pop()
        node, numbers = each.producer(), _numbers(each)
        if numbers is not None or node is None:
            if numbers is None or _may_be_lowest(numbers):
                return True
        elif node.domain or any(given.type is ir.AttributeType.GRAPH for given in node.attributes.values()):
            return True
        elif node.op_type not in _NEVER_LOWEST:
            if not (sources := _sources(node)):
                return True
            inputs = [source for source in sources if source is not None and source not in seen]
            reached += inputs
            seen.update(inputs)
    return False


def _numbers(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor that a value is, or the one number that it is filled with; None for a result that is not known."""
    if value is None:
        return None
    node = value.producer()
    if node is None or node.op_type != "ConstantOfShape" or "value" not in node.attributes:
        return value.const_value
    return node.attributes["value"].as_tensor()


def _may_be_lowest(tensor: ir.TensorProtocol) -> bool:
    bound, dtype = _of_constant(tensor), TO_TORCH.get(tensor.dtype)
    if dtype is None or not dtype.is_floating_point:
        return False
    return bound is None or bound >= torch.finfo(dtype).max


def _sources(node: ir.Node) -> Sequence[ir.Value | None]:
    """The inputs of which an operator moves, chooses or adds up elements; none of one that computes otherwise."""
    if node.op_type in _KEEPS:
        return node.inputs[:1]
    return node.inputs[node.op_type == "Where" :] if node.op_type in _COMBINED else ()


def _bound(value: ir.Value | None, depth: int, known: dict[ir.Value, float | None]) -> float | None:
    if value is None or value.dtype is None or value.dtype not in TO_TORCH:
        return None
    if value not in known:
        numbers = _numbers(value)
        bound = _of_result(value, depth, known) if numbers is None else _of_constant(numbers)
        known[value] = _in_dtype(bound, TO_TORCH[value.dtype])
    return known[value]


def _rows_have_less(value: ir.Value | None, limit: float, depth: int, known: dict[ir.Value, float | None]) -> bool:
    """Whether each row has an element whose magnitude is less than a limit."""
    if value is None or not depth:
        return False
    if _is_less(value, limit, known):
        return True
    numbers, node = _numbers(value), value.producer()
    if numbers is not None:
        tensor = _constant(numbers)
        return tensor is not None and _in_each_row(tensor.double().abs() < limit)
    if node is None or node.domain:
        return False
    if node.op_type in _KEEPS_ROWS and _same_last_size(node.inputs[0], value):
        return _rows_have_less(node.inputs[0], limit, depth - 1, known)
    if node.op_type == "Add":
        bounds = [_bound(term, depth - 1, known) for term in node.inputs]
        return any(
            bound is not None and _rows_have_less(rows, limit - bound, depth - 1, known)
            for rows, bound in zip(node.inputs, reversed(bounds), strict=True)
        )
    condition = _numbers(node.inputs[0]) if node.op_type == "Where" else None
    chosen = None if condition is None else _constant(condition)
    if chosen is None:
        return False
    branches = zip((chosen, ~chosen), node.inputs[1:], strict=True)
    return any(_in_each_row(here) and _is_less(branch, limit, known) for here, branch in branches)


def _in_each_row(elements: torch.Tensor) -> bool:
    return elements.dim() > 0 and bool(elements.any(-1).all())


def _is_less(value: ir.Value | None, limit: float, known: dict[ir.Value, float | None]) -> bool:
    bound = _bound(value, _DEPTH, known)
    return bound is not None and bound < limit


def _same_last_size(a: ir.Value | None, b: ir.Value) -> bool:
    sizes = [each.shape[-1] if each is not None and each.shape else None for each in (a, b)]
    return isinstance(sizes[0], int) and sizes[0] == sizes[1]


def _in_dtype(bound: float | None, dtype: torch.dtype) -> float | None:
    """A bound of numbers that are rounded to a dtype."""
    if dtype is torch.bool:
        return 1
    if not dtype.is_floating_point:
        return bound if bound is not None or dtype.is_complex else float(torch.iinfo(dtype).max)
    limits = torch.finfo(dtype)
    # A sum is rounded to the largest number if it is less than half a step above it.
    return None if bound is None or bound > limits.max * (1 + limits.eps / 8) else min(bound, limits.max)


def _of_result(value: ir.Value, depth: int, known: dict[ir.Value, float | None]) -> float | None:
    node = value.producer()
    if node is None or node.domain or not depth or not _sources(node):
        return None
    bounds = []
    for each in _sources(node):
        bound = _bound(each, depth - 1, known)
        if bound is None:
            return None
        bounds.append(bound)
    return _COMBINED.get(node.op_type, max)(bounds)


def _of_constant(tensor: ir.TensorProtocol) -> float | None:
    is_learned = isinstance(tensor, WeightTensor) and tensor.is_learned
    known = None if tensor.dtype is ir.DataType.BOOL else _known(tensor) if is_learned else _constant(tensor)
    if known is None:
        return None
    # Other dtypes are those that few programs have.
    ends = known.aminmax() if known.dtype in _WITH_MINIMUM else known.double().aminmax()
    largest = max(abs(float(end)) for end in ends)
    if not math.isfinite(largest):
        return None
    if isinstance(tensor, WeightTensor):
        tensor.stays_finite = True
    return largest


def _constant(tensor: ir.TensorProtocol) -> torch.Tensor | None:
    """The numbers of a tensor that nothing replaces."""
    is_fixed = type(tensor) is TorchTensor or (isinstance(tensor, WeightTensor) and tensor.is_literal)
    return _known(tensor) if is_fixed else None


def _known(tensor: ir.TensorProtocol) -> torch.Tensor | None:
    """The numbers of a tensor, if they are real and not too many."""
    known = tensor.raw if isinstance(tensor, TorchTensor) else None
    if (
        not isinstance(known, torch.Tensor)
        or known.is_meta
        or known.is_complex()
        or not 0 < known.numel() <= _MOST_ELEMENTS
    ):
        return None
    return known.detach()
