"""The ATen graph, which every capture produces and every lowering reads.

A node is an `OpOverload` with its arguments bound by schema name. A value is a tensor with a dtype and a shape whose
sizes are ints, or `SymInt`s if they are dynamic. A branch or a loop is also a node, of a `Primitive`, with a `Block`
for each of its bodies among its arguments. The graph does not depend on ONNX or an opset, so that one capture can be
lowered to many opsets.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import torch

from onnx_parity.exporter.errors import line_and_module, on_its_own_line
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of

__all__ = [
    "DTYPES",
    "Block",
    "Graph",
    "Holds",
    "Input",
    "Node",
    "Origin",
    "Primitive",
    "Size",
    "Value",
    "Varying",
    "broadcast_size",
    "is_broadcast",
    "operator_name",
    "same_shape",
    "same_size",
]

#: A size: an int, or an expression over symbols if an axis is dynamic.
Size = int | torch.SymInt
#: A symbolic number, which depends on dynamic sizes or on the values of tensors.
Varying = torch.SymInt | torch.SymFloat | torch.SymBool
#: The dtypes of numbers as tensors.
DTYPES = {
    bool: torch.bool,
    torch.SymBool: torch.bool,
    int: torch.int64,
    torch.SymInt: torch.int64,
    float: torch.float64,
    torch.SymFloat: torch.float64,
}


class Origin(NamedTuple):
    """The origin of a node: the user's line, and the path of the module that was running. Either may be unknown.

    All messages that name a line of the user's program use the texts of this class.
    """

    file: str
    line: int
    module: str = ""

    @property
    def where(self) -> str:
        """The line, `model.py:12`; empty if unknown."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def placed(self) -> str:
        """For use inside a sentence: ` at model.py:12`; ` in module features.0` if no line is known; or empty."""
        if self.file:
            return f" at {self.where}"
        return f" in module {self.module}" if self.module else ""

    @property
    def in_brackets(self) -> str:
        """For use at the end of a sentence: ` (at model.py:12)`, or empty."""
        return f" ({self.placed.strip()})" if self.placed else ""

    @property
    def full(self) -> str:
        """Line and module as far as known, `model.py:12 in features.0`, or empty."""
        return line_and_module(self.where, self.module)

    @property
    def placed_in_full(self) -> str:
        """Line and module for use inside a sentence: ` at model.py:12 in features.0`, or empty."""
        return f" at {self.full}" if self.file else self.placed

    @property
    def on_its_own_line(self) -> str:
        """Line and module for use below a sentence, with a line break before them, or empty."""
        return on_its_own_line(self.where, self.module)


class Holds(enum.Enum):
    """Whether a value is a tensor, a list of tensors, or an optional."""

    TENSOR = enum.auto()
    #: A tensor whose number of axes depends on sizes or on values. The shape of the value is the example's.
    ANY_RANK = enum.auto()
    #: A list of tensors with the dtype and rank of the value, and a data-dependent length. Symbolic sizes in the shape
    #: differ from item to item, and cannot be read.
    LIST = enum.auto()
    #: A list of tensors that differ in their number of axes. The shape of the value is that of one of them.
    LIST_OF_ANY_RANK = enum.auto()
    #: A tensor or None, depending on data.
    OPTIONAL = enum.auto()

    @property
    def is_list(self) -> bool:
        return self in (Holds.LIST, Holds.LIST_OF_ANY_RANK)

    @property
    def has_any_rank(self) -> bool:
        return self in (Holds.ANY_RANK, Holds.LIST_OF_ANY_RANK)


class Value:
    """A tensor of the program, or a list or an optional of tensors, according to `holds`. A value with a `constant` is
    known: it is a parameter, which `is_learned`, a buffer or a literal.
    """

    __slots__ = ("constant", "dtype", "holds", "is_learned", "name", "node", "shape")

    def __init__(
        self,
        dtype: torch.dtype,
        shape: tuple[Size, ...],
        *,
        node: Node | None = None,
        name: str = "",
        constant: torch.Tensor | None = None,
        holds: Holds = Holds.TENSOR,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.node = node
        self.name = name
        self.constant = constant
        self.is_learned = False
        self.holds = holds

    def __repr__(self) -> str:
        return f"Value({self.name or '?'}: {self.dtype}{list(self.shape)})"


class Primitive(msgspec.Struct, frozen=True):
    """An operation that torch's dispatcher does not have: a branch, a loop, an operation on a list."""

    name: str


class Block:
    """A body of a branch or of a loop. It may use every value of the blocks around it."""

    __slots__ = ("captured", "inputs", "nodes", "outputs", "sizes")

    def __init__(self, inputs: list[Value], nodes: list[Node], outputs: list[Value]) -> None:
        self.inputs = inputs
        self.nodes = nodes
        self.outputs = outputs
        own = {id(value) for value in inputs}
        own.update(id(output) for node in nodes for output in node.outputs)
        used = [*(value for node in nodes for value in node.inputs()), *outputs]
        #: The values of outer blocks that it uses.
        self.captured = list({id(value): value for value in used if id(value) not in own}.values())
        #: The sizes that appear in it.
        self.sizes: list[Varying] = [
            size for value in (*inputs, *outputs) for size in value.shape if not isinstance(size, int)
        ]
        self.sizes += [size for node in nodes for size in node.sizes() if not isinstance(size, int)]


class Node(msgspec.Struct, eq=False):
    """One call of an operator. `arguments` holds `Value`s, lists of them, numbers and `SymInt`s, by schema name."""

    op: OpOverload | Primitive
    arguments: dict[str, Any]
    origin: Origin
    #: One for each returned tensor, with lists flattened; None for a result that is not a tensor.
    outputs: list[Value | None] = []

    def inputs(self) -> Iterator[Value]:
        """The values among the arguments, in order, and those that its blocks use."""
        for argument in self.arguments.values():
            if isinstance(argument, Value):
                yield argument
            elif isinstance(argument, (list, tuple)):
                for item in argument:
                    if isinstance(item, Value):
                        yield item
            elif isinstance(argument, Block):
                yield from argument.captured

    def blocks(self) -> Iterator[Block]:
        """Its bodies, if it is a branch or a loop."""
        return (argument for argument in self.arguments.values() if isinstance(argument, Block))

    def sizes(self) -> Iterator[Size | Varying]:
        """The sizes of its outputs, and the symbolic numbers among its arguments."""
        for output in self.outputs:
            if output is not None:
                yield from output.shape
        for argument in self.arguments.values():
            if isinstance(argument, Block):
                yield from argument.sizes
            for item in argument if isinstance(argument, (list, tuple)) else (argument,):
                if isinstance(item, Varying):
                    yield item


class Input(msgspec.Struct, eq=False):
    """An input of the program, in the order of the flattened arguments."""

    value: Value
    name: str
    example: torch.Tensor


_Value = TypeVar("_Value")


class SymbolSource(NamedTuple, Generic[_Value]):
    """Where a symbol is read: from the size of a value's axis, or from the value itself, which has one number."""

    #: A value of the graph, or what it was lowered to.
    value: _Value
    axis: int | None
    #: The size is the symbol times `factor`, and `offset`: those of the axis "8*h + 3", from which h is read.
    factor: int = 1
    offset: int = 0

    @property
    def is_of_a_size(self) -> bool:
        """Whether the symbol is a size, or a number of which a size is a multiple: it is never negative."""
        return self.axis is not None and self.factor > 0 >= self.offset

    def of_size(self, size: Any) -> Any:
        """The symbol's number, where the axis has this size."""
        return size if (self.factor, self.offset) == (1, 0) else (size - self.offset) // self.factor


#: A size that is computed from more numbers than this is not named by its expression.
_LONGEST_NAME = 500


class Graph(msgspec.Struct, eq=False):
    """A captured program."""

    inputs: list[Input]
    nodes: list[Node]
    outputs: list[Value]
    #: Names of the symbols of dynamic axes: `s0` to `batch`.
    axis_names: dict[str, str] = {}
    #: By the names of symbols, for sizes of inputs and data-dependent sizes.
    symbol_sources: dict[str, SymbolSource[Value]] = {}
    #: Whether the program has complex tensors, of which the graph has the parts.
    has_complex: bool = False
    #: Whether the program asks autograd for gradients.
    differentiates: bool = False
    #: The dtype that torch computes products in, if the program enables autocast.
    autocast: torch.dtype | None = None
    #: Names of symbolic sizes, cached by expression.
    _size_names: dict[Any, str] = {}
    #: Names of the symbols of sizes that differ between the sides of a branch.
    _computed_sizes: dict[str, str] = {}

    def size_name(self, size: Varying) -> str:
        """The name of a symbolic size in a shape: `batch`, `2*batch`."""
        expression = size.node.expr
        name = self._size_names.get(expression)
        if name is None:
            names = {s: type(s)(self._symbol_name(str(s))) for s in expression.free_symbols}
            is_short = expression.length <= _LONGEST_NAME
            name = str(expression.xreplace(names)) if is_short else f"size({len(self._size_names)})"
            self._size_names[expression] = name
        return name

    def _symbol_name(self, symbol: str) -> str:
        name = self.axis_names.get(symbol) or self._computed_sizes.get(symbol)
        if name is None and symbol.startswith("s"):
            free = (f"size_{number}" for number in itertools.count(len(self._computed_sizes) + 1))
            name = next(each for each in free if each not in self.axis_names.values())
            self._computed_sizes[symbol] = name
        return name or symbol

    def live_nodes(self, known: Container[Value] = (), also: Sequence[Value] = ()) -> list[Node]:
        """The nodes that an output depends on, or a value of `also`, in order. Those whose results are known are not
        needed."""
        return self.live_in(self.nodes, [*self.outputs, *also], known)

    def all_live_nodes(self) -> Iterator[Node]:
        """The nodes that an output depends on, and after each those of its blocks."""
        waiting = self.live_nodes()[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            for block in reversed([*node.blocks()]):
                waiting += reversed(self.live_in(block.nodes, block.outputs))

    def live_in(self, nodes: Sequence[Node], outputs: Sequence[Value], known: Container[Value] = ()) -> list[Node]:
        """Those of a block's nodes that its outputs depend on, found in linear time."""
        computed = {name: each.value for name, each in self.symbol_sources.items() if each.value.node is not None}
        needed = {id(value) for value in outputs}
        if computed:
            needed.update(id(computed[name]) for value in outputs for name in _symbols(value.shape, computed))
        live = []
        for node in reversed(nodes):
            if any(id(output) in needed and output not in known for output in node.outputs):
                live.append(node)
                needed.update(id(value) for value in node.inputs())
                if computed:
                    needed.update(id(computed[name]) for name in _symbols(node.sizes(), computed))
        live.reverse()
        return live


def _symbols(sizes: Iterable[Size | Varying], known: Container[str]) -> Iterator[str]:
    """The names of the symbols in sizes that are among the known ones."""
    for size in sizes:
        if not isinstance(size, int):
            yield from (str(symbol) for symbol in size.node.expr.free_symbols if str(symbol) in known)


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(a.node.expr == b.node.expr)


def is_broadcast(size: Size) -> bool:
    """Whether a size is known to be 1, or to be 1 unless an axis is empty, as that of x[-1:]. Another size that it
    meets is that of the result."""
    return size == 1 if isinstance(size, int) else bool(size.node.shape_env.is_one_if_occupied(size))


def broadcast_size(a: Size, b: Size) -> Size | None:
    """The size that two sizes broadcast to, wherever they do; None for two sizes of inputs that may differ."""
    for one, other in ((a, b), (b, a)):
        if same_size(one, 1):
            return other
    for one, other in ((a, b), (b, a)):
        if same_size(one, other) or is_broadcast(one):
            return other
    symbolic = b if isinstance(a, int) else a
    return None if isinstance(symbolic, int) else symbolic.node.shape_env.broadcast(a, b)


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(a) == len(b) and all(map(same_size, a, b))


def operator_name(op: OpOverload | Primitive) -> str:
    """The name without the overload: `aten::add`."""
    return op.name if isinstance(op, Primitive) else schema_of(op).name
