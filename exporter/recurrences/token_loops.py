"""Recognises loops over tokens whose state is one of linear attention, and computes them for all tokens together.

Such a loop has a matrix as its state. An iteration multiplies it by decays, adds the product of a key and a row, from
which the delta rule subtracts what the key reads, and reads it with a query:

    state = state * decay
    row = (value - (state * key).sum(-2)) * beta
    state = state + key * row
    result = (state * query).sum(-2)

The order of factors, sums or products of matrices, axes of size 1 that are kept, and a state whose axes are the other
way round make no difference. What else an iteration computes has to be possible for all tokens at once. Loops for
which one of this does not hold stay loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.graph.block_primitives import LOOP, SCAN
from onnx_parity.exporter.graph.graph import Block, Node, Size, SymbolSource, Value, same_shape, same_size
from onnx_parity.exporter.recurrences.all_tokens import AllTokens, NotForAllTokens, bare
from onnx_parity.exporter.recurrences.factors import both_operands, factors_of
from onnx_parity.exporter.recurrences.linear_attention import LINEAR_ATTENTION
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["with_all_tokens"]

_aten = torch.ops.aten
#: Operators that move numbers, and change none.
_VIEWS = frozenset(
    {
        _aten.select.int, _aten.slice.Tensor, _aten.unsqueeze.default, _aten.squeeze.dim, _aten.expand.default,
        _aten.view.default, _aten.reshape.default, _aten.permute.default, _aten.transpose.int,
    }
)  # fmt: skip
_WRITES = frozenset({_aten.select_scatter.default, _aten.slice_scatter.default})


def with_all_tokens(nodes: Sequence[Node], sources: Mapping[str, SymbolSource[Value]]) -> list[Node]:
    """The nodes of a graph, with other ones for the loops that are recognised. `sources` are the values of symbols."""
    numbers = {id(each.value): name for name, each in sources.items() if each.axis is None}
    found: list[Node] = []
    for node in nodes:
        loop = _Loop.of(node, numbers) if node.op in (LOOP, SCAN) else None
        try:
            found += [node] if loop is None else _Recurrence(loop, sources).nodes()
        except NotForAllTokens:
            found.append(node)
    return found


class _Loop(NamedTuple):
    """A loop over tokens: of as many iterations as a size, or over slices of tensors."""

    node: Node
    block: Block
    initial: Sequence[Value]
    #: The values in the body that stand for the carried ones, and those for slices of whole tensors.
    carried: Sequence[Value]
    slices: Mapping[int, Value]
    #: The symbol that is the number of an iteration.
    number: str
    tokens: Size

    @staticmethod
    def of(node: Node, numbers: Mapping[int, str]) -> _Loop | None:
        block, initial = node.arguments["block"], node.arguments["initial"]
        if node.op is SCAN:
            over = node.arguments["over"]
            carried, parts = block.inputs[: len(initial)], block.inputs[len(initial) :]
            slices = {id(part): whole for part, whole in zip(parts, over, strict=True)}
            return _Loop(node, block, initial, carried, slices, "", over[0].shape[0])
        trips, (number, going, *carried) = node.arguments["trips"], block.inputs
        tokens = None if trips is None else _number(trips)
        if tokens is None or node.arguments["condition"] is not None or block.outputs[0] is not going:
            return None
        return _Loop(node, block, initial, carried, {}, numbers.get(id(number), ""), tokens)

    @property
    def results(self) -> Sequence[Value]:
        """The results of the body: those that are carried, and those that are stacked."""
        return self.block.outputs[self.node.op is LOOP :]


def _number(value: Value) -> Size | None:
    """The size that a tensor of one number has."""
    node = bare(value).node
    if node is not None and node.op is _aten.scalar_tensor.default:
        size: Size = node.arguments["s"]
        return size
    return None


class _Recurrence:
    """The one state of a loop that is no result, and what is computed with it."""

    def __init__(self, loop: _Loop, sources: Mapping[str, SymbolSource[Value]]) -> None:
        self._loop = loop
        self._inside: dict[int, Node | None] = {id(each): None for each in loop.block.inputs}
        self._inside |= {id(each): node for node in loop.block.nodes for each in node.outputs if each is not None}
        self._symbols = {name for name, each in sources.items() if id(each.value) in self._inside}
        count = len(loop.carried)
        self._after, self._stacked = loop.results[:count], loop.results[count:]
        states = [place for place in range(count) if self._written(place) is None]
        if len(states) != 1:
            raise NotForAllTokens
        (self._place,) = states
        self._state = loop.carried[self._place]
        self._end = bare(self._after[self._place])
        self._rank = len(self._state.shape)
        if not 2 <= self._rank <= 4 or not self._state.dtype.is_floating_point:
            raise NotForAllTokens
        self._lead = self._state.shape[:-2]
        self._dependent: dict[int, bool] = {id(self._state): True}
        self._forms: dict[Any, int] = {}
        self._made: list[Value] = []

    def _written(self, place: int) -> Value | None:
        """What each iteration writes to its own place of a carried tensor, all of which is written in the end."""
        before, after = self._loop.carried[place], bare(self._after[place])
        node = self._inside.get(id(after))
        if node is None or node.op not in _WRITES or bare(node.arguments["self"]) is not before:
            return None
        axis = node.arguments.get("dim", 0) % len(before.shape)
        first = node.arguments["index" if node.op is _aten.select_scatter.default else "start"]
        if str(first) != self._loop.number or not same_size(before.shape[axis], self._loop.tokens):
            return None
        source: Value = node.arguments["src"]
        is_one = len(source.shape) < len(before.shape) or same_size(source.shape[axis], 1)
        return source if is_one else None

    def nodes(self) -> list[Node]:
        """The nodes instead of the loop, whose results are its results."""
        for axis in (-2, -1):
            try:
                return self._nodes(axis)
            except NotForAllTokens:
                continue
        raise NotForAllTokens

    # --- what is computed ---------------------------------------------------------------------------------------------

    def _nodes(self, axis: int) -> list[Node]:
        loop = self._loop
        self._all = AllTokens(self._inside, loop.slices, loop.number, self._symbols, loop.tokens, loop.node.origin)
        #: The axes of keys and of values, from the last one.
        self._keys, self._values = axis, -3 - axis
        key, row, decays, state = self._update()
        value, rates, read = self._row(row)
        if read is not None:
            reader, from_state = read
            if self._form(from_state) != self._form(state):
                raise NotForAllTokens
            rates += self._split(key, reader)
            key = reader
        decay = self._decay(decays) if decays else None
        beta = None
        if read is not None:
            beta = self._rate(rates)
        elif rates:
            raise NotForAllTokens
        queries = self._queries()
        arguments = {
            "query": self._by_head(self._vector(queries, self._keys)),
            "key": self._by_head(self._vector(key, self._keys)),
            "value": self._by_head(self._vector(value, self._values)),
            "past_state": self._start(),
            "decay": decay,
            "beta": beta,
            "scale": 1.0,
        }
        return self._finished(arguments)

    def _update(self) -> tuple[Value, Value, list[Value], Value]:
        """The key, the row, the factors of the state, and the state with these factors."""
        node = self._node(self._end)
        if node is None or node.op is not _aten.add.Tensor or node.arguments.get("alpha", 1) != 1:
            raise NotForAllTokens
        for kept, new in both_operands(node):
            decays: list[Value] = []
            state = bare(kept)
            while state is not self._state:
                inner = self._node(state)
                pairs = [] if inner is None else factors_of(inner)
                pairs = [(one, other) for one, other in pairs if self._depends(one) and not self._depends(other)]
                if not pairs:
                    break
                decays.append(pairs[0][1])
                state = bare(pairs[0][0])
            if state is self._state:
                return (*self._product(bare(new)), decays, kept)
        raise NotForAllTokens

    def _product(self, new: Value) -> tuple[Value, Value]:
        """The key and the row whose product is a matrix."""
        node = self._node(new)
        if node is None or node.op not in (_aten.mul.Tensor, _aten.matmul.default):
            raise NotForAllTokens
        for key, row in both_operands(node):
            shapes = [each.shape for each in (key, row)]
            if min(map(len, shapes)) < 2 or self._depends(key):
                continue
            if same_size(shapes[0][self._values], 1) and same_size(shapes[1][self._keys], 1):
                return key, row
        raise NotForAllTokens

    def _row(self, row: Value) -> tuple[Value, list[Value], tuple[Value, Value] | None]:
        """The value, the rates by which it is multiplied, and the key and the state of what is subtracted from it."""
        if not self._depends(row):
            return row, [], None
        row = self._without_axes(row)
        node = self._node(row)
        for one, other in [] if node is None else factors_of(node):
            if self._depends(one) and not self._depends(other):
                value, rates, read = self._row(one)
                return value, [*rates, other], read
        if node is not None and node.op is _aten.sub.Tensor and node.arguments.get("alpha", 1) == 1:
            value, seen = node.arguments["self"], node.arguments["other"]
            if isinstance(value, Value) and isinstance(seen, Value) and not self._depends(value):
                read = self._read(self._without_axes(seen))
                if read is not None:
                    return value, [], read
        raise NotForAllTokens

    def _read(self, result: Value) -> tuple[Value, Value] | None:
        """The vector by which a state is read, and the state."""
        node = self._node(result)
        if node is None:
            return None
        if node.op is _aten.sum.dim_IntList:
            inner = self._node(bare(node.arguments["self"]))
            axes = [axis % self._rank for axis in node.arguments["dim"] or []]
            if inner is None or inner.op is not _aten.mul.Tensor or axes != [self._rank + self._keys]:
                return None
            pairs = [
                (one, other) for one, other in both_operands(inner) if self._depends(other) and not self._depends(one)
            ]
            return pairs[0] if pairs and same_size(pairs[0][0].shape[self._values], 1) else None
        if node.op is _aten.matmul.default:
            one, other = node.arguments["self"], node.arguments["other"]
            if self._keys == -2 and self._depends(other) and not self._depends(one):
                is_row = len(one.shape) == self._rank and same_size(one.shape[-2], 1)
                return (one, other) if is_row else None
            if self._keys == -1 and self._depends(one) and not self._depends(other):
                is_column = len(other.shape) == self._rank and same_size(other.shape[-1], 1)
                return (other, one) if is_column else None
        return None

    def _queries(self) -> Value:
        """The vector by which the state is read after it was written to, which all results depend on the state by."""
        found: list[tuple[Value, Value]] = []
        for node in self._loop.block.nodes:
            for output in node.outputs:
                read = None if output is None else self._read(output)
                if read is not None and bare(read[1]) is self._end:
                    found.append((output, read[0]))  # type: ignore[arg-type]
        if len({self._form(query) for _, query in found}) != 1:
            raise NotForAllTokens
        self._results = [result for result, _ in found]
        return found[0][1]

    def _split(self, key: Value, reader: Value) -> list[Value]:
        """The rates by which the key that reads is multiplied before it is written."""
        if self._form(key) == self._form(reader):
            return []
        node = self._node(self._root(key))
        if node is None or node.op is not _aten.mul.Tensor:
            raise NotForAllTokens
        for one, other in both_operands(node):
            if same_size(other.shape[-1] if other.shape else 1, 1):
                return [*self._split(one, reader), other]
        raise NotForAllTokens

    # --- parts of the body ------------------------------------------------------------------------------------------

    def _node(self, value: Value) -> Node | None:
        return self._inside.get(id(bare(value)))

    def _depends(self, value: Any) -> bool:
        """Whether a value depends on the state, rather than on the token alone."""
        value = bare(value) if isinstance(value, Value) else value
        if id(value) not in self._inside:
            return False
        key = id(value)
        if key not in self._dependent:
            node = self._inside[key]
            read = [] if node is None else [node.arguments["src"]] if node.op is _aten.copy.default else node.inputs()
            self._dependent[key] = any(map(self._depends, read))
        return self._dependent[key]

    def _root(self, value: Value) -> Value:
        """The value without axes of size 1 that were added."""
        value = bare(value)
        while (node := self._inside.get(id(value))) is not None and node.op is _aten.unsqueeze.default:
            value = bare(node.arguments["self"])
        return value

    def _form(self, value: Value) -> int:
        """A number that values have in common that are computed alike, apart from axes of size 1 that are added."""
        value = self._root(value)
        node = self._inside.get(id(value))
        if node is None or len(node.outputs) != 1 or not isinstance(node.op, OpOverload):
            return id(value)
        if torch.Tag.nondeterministic_seeded in node.op.tags:
            return id(value)
        arguments = (
            (name, self._form(each) if isinstance(each, Value) else str(each)) for name, each in node.arguments.items()
        )
        if any(isinstance(each, list) and any(isinstance(x, Value) for x in each) for each in node.arguments.values()):
            return id(value)
        return self._forms.setdefault((node.op, *arguments), id(value))

    def _without_axes(self, value: Value) -> Value:
        value = bare(value)
        while (node := self._inside.get(id(value))) is not None and node.op in (
            _aten.unsqueeze.default,
            _aten.squeeze.dim,
        ):
            value = bare(node.arguments["self"])
        return value

    # --- for all tokens ---------------------------------------------------------------------------------------------

    def _vector(self, value: Value, axis: int) -> Value:
        """A key, a query or a value, as (tokens, ..., size)."""
        whole = self._all.of(value)
        rank = self._rank
        if len(value.shape) == rank:
            # A row that multiplies a matrix lies where the matrix has columns.
            gone = [each for each in (rank - 3 - axis, rank + axis) if same_size(value.shape[each], 1)]
            if not gone:
                raise NotForAllTokens
            whole = self._all.squeeze(whole, gone[0] + 1)
        whole = self._all.unsqueeze(whole, [1] * (rank - len(whole.shape)))
        return self._all.expand(whole, [self._loop.tokens, *self._lead, self._state.shape[axis]])

    def _by_head(self, whole: Value) -> Value:
        """(tokens, ..., size) as (batch, heads, tokens, size)."""
        while len(whole.shape) < 4:
            whole = self._all.unsqueeze(whole, [len(self._lead) + 1 if len(whole.shape) == 3 else 1])
        return self._all.permute(whole, [1, 2, 0, 3])

    def _number_by_head(self, value: Value) -> Value:
        """A number for each token and head, as (batch, heads, tokens)."""
        by_head = self._by_head(value)
        return self._all.squeeze(by_head, 3)

    def _rate(self, rates: Sequence[Value]) -> Value:
        found = None
        for rate in rates or [Value(self._state.dtype, (), constant=torch.ones((), dtype=self._state.dtype))]:
            rank = len(rate.shape)
            if rank and not same_size(rate.shape[-1], 1):
                raise NotForAllTokens
            whole = self._all.of(rate)
            while len(whole.shape) > len(self._lead) + 2:
                if not same_size(whole.shape[-2], 1):
                    raise NotForAllTokens
                whole = self._all.squeeze(whole, len(whole.shape) - 2)
            whole = self._all.unsqueeze(whole, [1] * (len(self._lead) + 2 - len(whole.shape)))
            whole = self._all.expand(whole, [self._loop.tokens, *self._lead, 1])
            found = whole if found is None else self._all.unary(_aten.mul.Tensor, found, other=whole)
        assert found is not None
        return self._number_by_head(found)

    def _decay(self, factors: Sequence[Value]) -> Value:
        """The sum of the logarithms of factors, which are known to be positive."""
        logarithms = [self._logarithm(factor) for factor in factors]
        sizes = [[each.shape[axis] if len(each.shape) >= -axis else 1 for axis in (self._keys, self._values)]
            for each in logarithms]  # fmt: skip
        if not all(same_size(along_values, 1) for _, along_values in sizes):
            raise NotForAllTokens
        is_by_element = not all(same_size(along_keys, 1) for along_keys, _ in sizes)
        size = self._state.shape[self._keys] if is_by_element else 1
        found = None
        for each in logarithms:
            whole = self._all.of(each)
            whole = self._all.unsqueeze(whole, [1] * (self._rank + 1 - len(whole.shape)))
            whole = self._all.squeeze(whole, self._rank + 1 + self._values)
            whole = self._all.expand(whole, [self._loop.tokens, *self._lead, size])
            found = whole if found is None else self._all.unary(_aten.add.Tensor, found, other=whole)
        assert found is not None
        return self._by_head(found) if is_by_element else self._number_by_head(found)

    def _logarithm(self, factor: Value) -> Value:
        """The logarithm of a factor that is known to be positive, as a value of the body or from before the loop."""
        factor = bare(factor)
        node, known = factor.node, factor.constant
        if known is not None and not factor.is_learned and bool((known > 0).all()):
            return self._all.unary(_aten.log.default, factor)
        whole = self._loop.slices.get(id(factor))
        if whole is not None:
            logarithm = Value(factor.dtype, factor.shape)
            self._inside[id(logarithm)] = None
            self._all.set(logarithm, self._logarithm(whole))
            return self._kept(logarithm)
        if node is None:
            raise NotForAllTokens
        if node.op is _aten.exp.default:
            argument: Value = node.arguments["self"]
            return argument
        if node.op is _aten.sigmoid.default:
            # log(sigmoid(x)) = -softplus(-x)
            negative = self._instead(node, _aten.neg.default, node.arguments["self"])
            return self._instead(node, _aten.neg.default, self._instead(node, _aten.softplus.default, negative))
        if node.op in _VIEWS:
            return self._instead(node, node.op, self._logarithm(node.arguments["self"]))
        raise NotForAllTokens

    def _instead(self, node: Node, op: OpOverload, x: Value) -> Value:
        """The result of an operator of other numbers, where a node has one of the same shape."""
        (value,) = node.outputs
        assert value is not None
        made = Node(op, {**node.arguments, "self": x}, node.origin)
        result = Value(x.dtype, value.shape, node=made)
        made.outputs.append(result)
        if id(value) in self._inside:
            self._inside[id(result)] = made
            return self._kept(result)
        self._all.nodes.append(made)
        return result

    def _kept(self, value: Value) -> Value:
        self._made.append(value)  # So that no other value has its id.
        return value

    def _start(self) -> Value:
        start = self._loop.initial[self._place]
        if self._keys == -1:
            rank = len(start.shape)
            start = self._all.permute(start, [*range(rank - 2), rank - 1, rank - 2])
        return self._all.unsqueeze(start, [len(self._lead) if len(self._lead) == 1 else 0] * (2 - len(self._lead)))

    def _finished(self, arguments: dict[str, Any]) -> list[Node]:
        every, origin = self._all, self._loop.node.origin
        value, start = arguments["value"], arguments["past_state"]
        node = Node(LINEAR_ATTENTION, arguments, origin)
        result, end = (Value(each.dtype, each.shape, node=node) for each in (value, start))
        node.outputs += [result, end]
        every.nodes.append(node)
        whole = every.permute(result, [2, 0, 1, 3])
        for _ in range(2 - len(self._lead)):
            whole = every.squeeze(whole, 2 if len(whole.shape) == 4 and self._lead else 1)
        for read in self._results:
            every.set(read, every.unsqueeze(whole, [self._rank + self._keys + 1] * (len(read.shape) == self._rank)))
        outputs = [
            (self._whole_of(place, output, end), output)
            for place, output in enumerate(self._loop.node.outputs)
            if output is not None
        ]
        if any(whole.dtype is not out.dtype or not same_shape(whole.shape, out.shape) for whole, out in outputs):
            raise NotForAllTokens
        for whole, out in outputs:
            out.node = Node(_aten.alias.default, {"self": whole}, origin, [out])
            every.nodes.append(out.node)
        return every.nodes

    def _whole_of(self, place: int, output: Value, end: Value) -> Value:
        every = self._all
        if place == self._place:
            for _ in range(2 - len(self._lead)):
                end = every.squeeze(end, 1 if self._lead and len(end.shape) == 4 else 0)
            rank = len(end.shape)
            return every.permute(end, [*range(rank - 2), rank - 1, rank - 2]) if self._keys == -1 else end
        if place >= len(self._loop.carried):
            stacked = self._stacked[place - len(self._loop.carried)]
            return every.expand(every.of(stacked), output.shape)
        source = self._written(place)
        before, node = self._loop.carried[place], self._node(self._after[place])
        assert source is not None and node is not None
        axis = node.arguments.get("dim", 0) % len(before.shape)
        whole = every.of(source)
        if len(source.shape) == len(before.shape):
            whole = every.squeeze(whole, axis + 1)
        whole = every.expand(whole, [self._loop.tokens, *before.shape[:axis], *before.shape[axis + 1 :]])
        return every.permute(whole, [*range(1, axis + 1), 0, *range(axis + 1, len(before.shape))])
