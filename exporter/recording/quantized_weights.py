"""Weights that a program computes from integers and scales whenever it is called, as quantized layers do.

Libraries store the integers in many ways: several in one number, which shifts take apart, in groups, or in an order of
their own. What they compute is always `(integers - zero points) * scales`, of which the elements may be moved. So the
constants of which a weight is made are computed here, the moves are done with the integers, with the zero points and
with the scales, and the layer reads one `onnx_parity::dequantize_blocks` of the three.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from onnx_parity.exporter.graph.graph import Graph, Node, Value, operator_name
from onnx_parity.exporter.recording.evaluate import nodes_behind, outside_of_recording
from onnx_parity.exporter.recording.known_values import OnTheCpu, is_repeatable
from onnx_parity.exporter.recording.quantized_layers import Matrix, Writer
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["with_quantized_weights"]

_aten = torch.ops.aten

#: Operators that move the elements of a weight, or do nothing with them.
_MOVES = frozenset(
    f"aten::{name}"
    for name in (
        "view", "_unsafe_view", "reshape", "flatten", "t", "transpose", "permute", "unsqueeze", "squeeze", "clone",
        "detach", "alias", "contiguous",
    )
)  # fmt: skip
_CAST = "aten::_to_copy"
_KEEP_INTEGERS = frozenset({_CAST, "aten::sub", "aten::add"})
#: The argument that is the weight of each operator that multiplies with one.
_WEIGHT = {
    "aten::mm": "mat2", "aten::addmm": "mat2", "aten::matmul": "other", "aten::linear": "weight",
    "aten::embedding": "weight",
}  # fmt: skip
#: Smaller weights are left to constant folding.
_FEWEST = 1024
#: The dtypes of numbers in which integers are stored, and how many of them a byte may hold.
_STORED = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32})
_MOST_PACKED = 4


class _Terms(msgspec.Struct, frozen=True, eq=False):
    """A weight as it is computed: its integers, or multiples of a half, what is subtracted from them and what they are
    multiplied with, which broadcast, and the operators that move the result, the last one first."""

    integers: Value
    zero_point: Value | float | None
    scales: tuple[Value, ...]
    product: Value
    moves: tuple[Node, ...]


def with_quantized_weights(
    graph: Graph, nodes: Sequence[Node], known: Container[Value], stays: Callable[[OpOverload], bool]
) -> tuple[Sequence[Node], Iterable[Value]]:
    """The nodes, of which those that read quantized weights are replaced, and the constants that new ones are made of.
    An operator that `stays` is kept."""
    if not any(_may_store_weights(value) for node in nodes for value in node.inputs()):
        return nodes, ()
    search = _Search(graph, nodes, known, stays)
    return search.replaced(), search.read


def _may_store_weights(value: Value) -> bool:
    stored = value.constant
    return (
        stored is not None
        and value.dtype in _STORED
        and stored.numel() * value.dtype.itemsize * _MOST_PACKED >= _FEWEST
    )


class _Search:
    def __init__(
        self, graph: Graph, nodes: Sequence[Node], known: Container[Value], stays: Callable[[OpOverload], bool]
    ) -> None:
        self._nodes = nodes
        self._stays = stays
        self._readings = Counter(value for node in nodes for value in node.inputs())
        self._readings.update(graph.outputs)
        self._interpreter = OnTheCpu()
        self._known = known
        #: The constants from whose values nodes have been replaced.
        self.read: set[Value] = set()
        #: The results of nodes that depend on constants alone.
        self._computable: set[Value] = set()
        for node in nodes:
            if (
                isinstance(node.op, OpOverload)
                and is_repeatable(node, node.op)
                and all(map(self._is_known, node.inputs()))
            ):
                self._computable.update(filter(None, node.outputs))

    def replaced(self) -> list[Node]:
        instead: dict[int, list[Node]] = {}
        for node in self._nodes:
            product = self._scaled_product(node) if node.op == _aten.mul.Tensor else None
            if product is not None and (new := self._with_weight(product, node)) is not None:
                instead |= {id(product): new, id(node): []}
            elif id(node) not in instead and (new := self._with_weight(node, None)) is not None:
                instead[id(node)] = new
        return [each for node in self._nodes for each in instead.get(id(node), [node])]

    def _scaled_product(self, scaling: Node) -> Node | None:
        """The product of rows and integers, if each column of it alone is multiplied with a constant."""
        for product, scale in _both_orders(scaling):
            if product.node is None or operator_name(product.node.op) not in ("aten::mm", "aten::matmul"):
                continue
            is_of_columns = all(size == 1 for size in scale.shape[:-1]) and self._is_known(scale)
            result = scaling.outputs[0]
            if is_of_columns and self._readings[product] == 1 and result is not None and result.dtype is product.dtype:
                return product.node
        return None

    def _is_known(self, value: Value) -> bool:
        """Whether a value depends on constants alone, which have data."""
        if value.constant is not None:
            return not value.constant.is_meta
        return value in self._computable or value in self._known

    # --- what is written instead --------------------------------------------------------------------------------------

    def _with_weight(self, node: Node, scaling: Node | None) -> list[Node] | None:
        name = operator_name(node.op)
        weight = node.arguments.get(_WEIGHT.get(name, ""))
        if not isinstance(weight, Value) or not self._is_made_of_integers(weight) or self._stays(node.op):  # type: ignore[arg-type]
            return None
        terms = self._terms(weight)
        if terms is None or bool(terms.scales) is (scaling is not None):
            return None
        is_turned = name in ("aten::linear", "aten::embedding")
        with outside_of_recording(), torch.no_grad():
            computed = self._computed(weight)
            matrix = self._matrix(terms, is_turned)
            if scaling is not None and matrix is not None:
                (scale,) = (other for product, other in _both_orders(scaling) if product.node is node)
                matrix = replace(matrix, scale=self._computed(scale).reshape(-1).expand(matrix.integers.shape))
                computed = computed * matrix.scale
            if matrix is None or not matrix.is_equal(computed.t() if is_turned else computed):
                return None
            writer = Writer(node, scaling or node)
            new = writer.embedding(matrix) if name == "aten::embedding" else writer.product(matrix)
        if new is not None:
            self.read.update(_constants_of(weight), () if scaling is None else _constants_of(scale))
        return new

    # --- what the weight is made of -----------------------------------------------------------------------------------

    def _is_made_of_integers(self, weight: Value) -> bool:
        """Whether it is a matrix that is computed from constants, of which one stores integers for all elements."""
        if (
            weight.node is None
            or len(weight.shape) != 2
            or not weight.dtype.is_floating_point
            or not self._is_known(weight)
        ):
            return False
        size = math.prod(map(int, weight.shape))
        return size >= _FEWEST and any(
            _may_store_weights(each) and each.constant.numel() * each.dtype.itemsize * _MOST_PACKED >= size  # type: ignore[union-attr]
            for each in _constants_of(weight)
        )

    def _terms(self, weight: Value) -> _Terms | None:
        moves: list[Node] = []
        value = weight
        while (node := value.node) is not None and value.dtype.is_floating_point:
            name = operator_name(node.op)
            source = node.arguments.get("self")
            if not isinstance(source, Value) or not (
                _only_moves(node) or (name == _CAST and source.dtype.is_floating_point)
            ):
                break
            moves.append(node)
            value = source
        found = _integers(value)
        if found is not None:
            return _Terms(*found, (), value, tuple(moves))
        scales: list[Value] = []
        numbers: Value | None = None
        while node is not None and operator_name(node.op) == "aten::mul":
            for integers, scale in _both_orders(node):
                found = _integers(integers)
                if found is not None and scale.dtype.is_floating_point:
                    return _Terms(*found, (*scales, scale), value, tuple(moves))
            # Numbers of 4 bits with a point may be made of their bits in any way, and have a scale for all blocks too.
            scaled = [each for each in _both_orders(node) if _is_scaled(*each, value)]
            if not scaled:
                break
            numbers, scale = scaled[0]
            scales.append(scale)
            node = numbers.node
        return None if numbers is None else _Terms(numbers, None, tuple(scales), value, tuple(moves))

    def _computed(self, value: Value) -> torch.Tensor:
        scope: dict[Value, Any] = {}
        self._interpreter.run(nodes_behind(value, scope), scope)
        computed: torch.Tensor = self._interpreter.value(value, scope)
        return computed

    def _matrix(self, terms: _Terms, is_turned: bool) -> Matrix | None:
        sizes = terms.product.shape
        integers = self._computed(terms.integers).float()
        step = 1.0 if torch.equal(integers.round(), integers) else 0.5
        integers = integers / step
        if tuple(integers.shape) != tuple(sizes) or not torch.equal(integers.clamp(-128, 255).round(), integers):
            return None
        integers = integers.to(torch.int16)

        def moved(given: torch.Tensor) -> torch.Tensor:
            scope: dict[Value, Any] = {terms.product: given.expand(sizes)}
            for node in reversed(terms.moves):
                if operator_name(node.op) == _CAST:
                    scope[node.outputs[0]] = scope[node.arguments["self"]]  # type: ignore[index]
                else:
                    self._interpreter.step(node, scope)
            result: torch.Tensor = next(reversed(scope.values()))
            return result.t() if is_turned else result

        scale = math.prod(map(self._computed, terms.scales), start=torch.ones(()))
        scale = scale if step == 1 else scale * step
        zero_point = terms.zero_point
        start = self._computed(zero_point) if isinstance(zero_point, Value) else torch.tensor(zero_point or 0)
        start = start.to(torch.float32) / step
        return Matrix(moved(integers), None if not start.any() else moved(start), moved(scale))


def _constants_of(value: Value) -> Iterator[Value]:
    """The constants that a value is computed from."""
    if value.constant is not None:
        yield value
    yield from (each for node in nodes_behind(value, {}) for each in node.inputs() if each.constant is not None)


def _both_orders(product: Node) -> Iterator[tuple[Value, Value]]:
    one, other = product.arguments["self"], product.arguments["other"]
    if isinstance(one, Value) and isinstance(other, Value):
        yield one, other
        yield other, one


def _only_moves(node: Node) -> bool:
    """Whether it moves elements, and does not read their bits as another dtype."""
    return operator_name(node.op) in _MOVES and node.op is not _aten.view.dtype


def _is_scaled(numbers: Value, scale: Value, product: Value) -> bool:
    sizes = tuple(product.shape)
    return tuple(numbers.shape) == sizes != tuple(scale.shape) and scale.dtype.is_floating_point


def _integers(value: Value) -> tuple[Value, Value | float | None] | None:
    """The integers that a value is, and what is subtracted from them."""
    node = value.node
    if node is not None and operator_name(node.op) == "aten::sub" and node.arguments.get("alpha", 1) == 1:
        minuend: Value = node.arguments["self"]
        return (minuend, node.arguments["other"]) if _is_integral(minuend) else None
    return (value, None) if _is_integral(value) else None


def _is_integral(value: Value) -> bool:
    """Whether it is computed as integers, which are then moved and cast. What is added to them has to be integers too,
    which `_matrix` looks at."""
    while value.dtype.is_floating_point:
        source = None if value.node is None else value.node.arguments.get("self")
        keeps = value.node is not None and (operator_name(value.node.op) in _KEEP_INTEGERS or _only_moves(value.node))
        if not keeps or not isinstance(source, Value):
            return False
        value = source
    return value.dtype is not torch.bool and not value.dtype.is_complex
