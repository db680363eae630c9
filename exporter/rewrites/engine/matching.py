"""What rewrites ask about values, constants, sizes, and the nodes around them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import onnx_ir as ir

from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor, WeightTensor
from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator

__all__ = [
    "ELEMENTWISE",
    "Sizes",
    "axes_of",
    "axis_of",
    "ints_of",
    "inverse_of",
    "is_learned",
    "is_plain_product",
    "is_read_by_one",
    "known_tensor",
    "number_of",
    "pairs_of",
    "permutation_of",
    "producer_of",
    "sizes_of",
    "sizes_to_reshape_to",
]

#: Sizes of axes: numbers, and names of dynamic ones. Axes of one name have equal sizes.
Sizes = tuple[int | str, ...]

#: Operators that compute each element of the result from those in its place, and broadcast their inputs at all opsets.
ELEMENTWISE = frozenset(
    {
        "Abs", "Add", "And", "Cast", "Ceil", "Cos", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual",
        "Identity", "IsNaN", "Less", "LessOrEqual", "Log", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu",
        "Sigmoid", "Sign", "Sin", "Sqrt", "Sub", "Tanh", "Where", "Xor",
    }
)  # fmt: skip


def producer_of(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """The node that computes a value, if it is of one of these operators of ONNX."""
    node = value.producer() if value is not None else None
    return node if node is not None and onnx_operator(node) in operators else None


def known_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of an initializer or a Constant node; None where a user's Constant has another attribute for it."""
    if value is None:
        return None
    if value.is_initializer():
        return value.const_value
    constant = producer_of(value, "Constant")
    if constant is None or "value" not in constant.attributes:
        return None
    tensor: ir.TensorProtocol = constant.attributes["value"].value
    return tensor


def is_plain_product(layer: ir.Node) -> bool:
    """Whether it is a product of matrices, with a sum or without, and nothing else."""
    if onnx_operator(layer) not in ("Gemm", "MatMul"):
        return False
    values = {name: attribute.value for name, attribute in layer.attributes.items() if name != "transB"}
    return all(values.get(name, plain) == plain for name, plain in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)))


def is_learned(tensor: ir.TensorProtocol) -> bool:
    """Whether a tensor depends on parameters."""
    return isinstance(tensor, (WeightTensor, LazyTorchTensor)) and tensor.is_learned


def pairs_of(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The two inputs of a commutative operator, in either order."""
    for one, other in itertools.permutations(node.inputs):
        if one is not None and other is not None:
            yield one, other


def ints_of(value: ir.Value | None) -> list[int] | None:
    """The elements of a constant; None for any other value."""
    tensor = known_tensor(value)
    return None if tensor is None else [int(number) for number in tensor.numpy().reshape(-1)]


def number_of(value: ir.Value | None) -> float | None:
    """The number in a constant without axes; None for any other value, and for a weight, which may be replaced."""
    tensor = known_tensor(value)
    is_number = tensor is not None and not len(tensor.shape) and type(tensor) not in (WeightTensor, LazyTorchTensor)
    return float(tensor.numpy()) if tensor is not None and is_number else None


def inverse_of(value: ir.Value | None) -> ir.Value | None:
    """What a value is the reciprocal of; None if it is not computed as one."""
    quotient, reciprocal = producer_of(value, "Div"), producer_of(value, "Reciprocal")
    if reciprocal is not None:
        return reciprocal.inputs[0]
    return quotient.inputs[1] if quotient is not None and number_of(quotient.inputs[0]) == 1.0 else None


def permutation_of(transpose: ir.Node) -> list[int] | None:
    """The order into which a Transpose puts axes; None if it reverses them, as one of a user may, and their number is
    not known."""
    if "perm" in transpose.attributes:
        return list(transpose.attributes["perm"].as_ints())
    moved = transpose.inputs[0]
    return None if moved is None or moved.shape is None else list(range(len(moved.shape)))[::-1]


def sizes_of(value: ir.Value | None) -> Sizes | None:
    """The sizes of a value; None if one is not known."""
    if value is None or value.shape is None:
        return None
    sizes = tuple(size if isinstance(size, int) else size.value for size in value.shape)
    return None if None in sizes else sizes  # type: ignore[return-value]  # no size is None


def is_read_by_one(node: ir.Node) -> bool:
    """Whether one other node reads the result of a node, as one of its inputs, and nothing else does."""
    return len(node.outputs[0].uses()) == 1 and not node.outputs[0].is_graph_output()


def axis_of(join: ir.Node) -> int:
    """The axis of a Concat."""
    return join.attributes["axis"].as_int()


def axes_of(node: ir.Node) -> list[int] | None:
    """The axes of an Unsqueeze, which are an attribute in early opsets and an input later."""
    if "axes" in node.attributes:
        return list(node.attributes["axes"].as_ints())
    return ints_of(node.inputs[1])


def sizes_to_reshape_to(source: ir.Value | None, after: Sizes | None) -> list[int] | None:
    """What a Reshape is given: a size is 0 that is that of the source's axis, or one is -1. With both, it would fail
    for empty tensors."""
    before = sizes_of(source)
    if before is None or after is None or 0 in after:
        return None
    sizes = [
        size if isinstance(size, int) else 0 if axis < len(before) and before[axis] == size else -1
        for axis, size in enumerate(after)
    ]
    return sizes if sizes.count(-1) <= (0 not in sizes) else None
