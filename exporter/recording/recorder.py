"""The recorder: a dispatch mode that adds a node to the graph for each operator that runs with fake tensors.

It binds the arguments to the names in the operator's schema, and finds the user's source line and module path on the
Python stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.arrays import in_pairs
from onnx_parity.exporter.dispatch.composites import PlainSizesError, original, without_keeping
from onnx_parity.exporter.dispatch.functional import unwrapped
from onnx_parity.exporter.dispatch.gradients import WeightsUsed
from onnx_parity.exporter.graph.decisions import Decision, Decisions, Reconsider
from onnx_parity.exporter.graph.graph import Holds, Node, Primitive, Size, SymbolSource, Value
from onnx_parity.exporter.graph.list_primitives import TO_LIST
from onnx_parity.exporter.graph.origin import OriginFinder, refused_here
from onnx_parity.exporter.recording.autograd_functions import AUTOGRAD_FUNCTION, FunctionCall
from onnx_parity.exporter.recording.complex_values import ComplexValues, as_in_program
from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
from onnx_parity.exporter.recording.fakes.result_cache import ResultMemo
from onnx_parity.exporter.recording.lost_writes import (
    LayoutsAsked,
    MayBeOne,
    UnclearLayouts,
    forget_layouts,
    own_tensor_written,
    without_memory,
)  # fmt: skip
from onnx_parity.exporter.recording.open_ranks import TAKING_ANY_RANK, OpenRanks
from onnx_parity.exporter.recording.random_numbers import RandomNumbers
from onnx_parity.exporter.recording.values_read import MOST_LISTED, Reader
from onnx_parity.exporter.registry.results import OfAnyRank
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor, computes_itself
from onnx_parity.exporter.torch_inside.modes import (
    TorchDispatchMode,
    Uncompiled,
    outside_of_modes,
    without_dispatch_overrides,
    without_function_overrides,
)

__all__ = ["Recorder", "unwrapped"]


class Checkpoint(msgspec.Struct, frozen=True):
    """The state of the symbols before a block was recorded, so that the block can be recorded again."""

    known: list[dict[Any, Any]]
    answers: dict[Any, Any]
    reads: int
    may_be_one: int
    results: int


_CPU = torch.device("cpu")
_COPY = torch.ops.aten.copy_.default
_SPLIT = torch.ops.aten.split_with_sizes.default
_SIZES = torch.ops.aten.size.default
_NUMBER_OF = torch.ops.aten._local_scalar_dense.default
_LIFT = torch.ops.aten.lift_fresh_copy.default
_DETACH = torch.ops.aten.detach.default
_prim_device = torch.ops.prim.device.default
#: Operators that read a tensor's value into Python.
_READS = frozenset(
    {
        _NUMBER_OF,
        torch.ops.aten.allclose.default,
        torch.ops.aten.equal.default,
        torch.ops.aten.is_nonzero.default,
    }
)

_parameter_names: dict[OpOverload, tuple[str, ...]] = {}


def _names_of(op: OpOverload) -> tuple[str, ...]:
    names = _parameter_names.get(op)
    if names is None:
        names = _parameter_names[op] = tuple(argument.name for argument in schema_of(op).arguments)
    return names


class Recorder(Uncompiled, TorchDispatchMode):
    """Records a program into `nodes`.

    Tensors that are not fake are the program's own, such as weights. They become constants, named by `name_of`.
    """

    def __init__(
        self,
        fakes: Fakes,
        origins: OriginFinder,
        name_of: Callable[[torch.Tensor], str],
        decomposition_of: Callable[[OpOverload], Callable[..., Any] | None],
        strict: bool,
        decisions: Decisions,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fakes = fakes
        fakes.cache_enabled = False
        self.memo = ResultMemo(fakes, of_kernels=Decision.LAYOUTS_OF_KERNELS in decisions)
        #: Conditions on sizes of inputs.
        self.size_conditions: dict[Value, Any] = {}
        self.nodes: list[Node] = []
        self.outermost = self.nodes
        self.last: Node | None = None
        self.origins = origins
        self.name_of = name_of
        self._decomposition_of = decomposition_of
        self.decisions = decisions
        #: Whether the program's own tensors are arguments of `functionalize` too (see `Lifting`).
        self.lifts = Decision.WRAP_OWN_TENSORS in decisions
        #: Gives one of these tensors the value of another one, where they are.
        self.give_data: Callable[[torch.Tensor, torch.Tensor], None] | None = None
        self.result_by_class: Callable[[Recorder, OpOverload, Any, Any, Any], Any]
        # Fake tensors are kept alive here, so that the id of a tensor is not used again.
        self._values: dict[int, tuple[FakeTensor, Value]] = {}
        self._constants: dict[int, tuple[torch.Tensor, FakeTensor]] = {}
        #: Complex tensors, which are none of `_values`: their parts are.
        self._complex = ComplexValues(self)
        #: The symbols of numbers that were read.
        self._numbers: dict[Value, torch.SymInt | torch.SymFloat] = {}
        self._writable: set[int] = set()  # The ids of inputs and buffers, which the program may write to.
        #: For each symbol, a value of the program that has this size, and the axis.
        self.size_sources: dict[str, tuple[Value, int]] = {}
        #: The tensors whose number of axes depends on sizes or values, each with the first one that has that number.
        self.open_ranks = OpenRanks(origins)
        self.weights = WeightsUsed()
        #: Whether the program is a script itself, and not a function that may call some.
        self.of_script = False
        self.buffers: frozenset[int] = frozenset()  # The ids of those that the program is given.
        #: Called with the program after it has returned. They return changed attributes by name.
        self.at_end: list[Callable[[object], Mapping[str, Any]]] = []
        #: Tensors of scripts with the same memory for some values, but not here.
        self.may_be_one: list[MayBeOne] = []
        self.unclear_layouts = UnclearLayouts(self)
        self.layouts_asked = LayoutsAsked(self)
        self.autocast: torch.dtype | None = None
        self.reader = Reader(self.size_sources, origins, fakes.symbols, strict, decisions)
        self.random_numbers = RandomNumbers(self, strict)

    # --- values ---------------------------------------------------------------------------------------------------

    def writable(self, fake: FakeTensor) -> FakeTensor:
        self._writable.add(id(fake))
        return fake

    def input(self, fake: FakeTensor, name: str, example: torch.Tensor) -> Value:
        if fake.is_complex():
            pair = self.memo.empty(fake.dtype.to_real(), (*fake.shape, 2), fake.fake_device)
            self._complex.hold(fake, pair, self.outermost)
            return self.input(pair, name, in_pairs(example.detach()))
        value = Value(fake.dtype, tuple(fake.shape), name=name)
        self._values[id(fake)] = (fake, value)
        self.reader.examples[value] = example
        return value

    def constant(self, tensor: torch.Tensor) -> FakeTensor:
        """The fake tensor for a tensor that the program owns."""
        self.weights.take(tensor, self.name_of)
        known = self._constants.get(id(tensor))
        if known is not None:
            return known[1]
        if computes_itself(type(tensor)) or tensor.layout is not torch.strided:
            raise without_memory(tensor)
        with without_dispatch_overrides():
            shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            # A weight that will be supplied later has no data.
            data = shape if isinstance(tensor, FakeTensor) or tensor.is_meta else tensor.detach()
        fake = self.fakes.tensor(shape, _CPU if tensor.is_meta else tensor.device)
        self._constants[id(tensor)] = (tensor, fake)
        if tensor.is_complex():
            pair = self.memo.empty(tensor.dtype.to_real(), (*tensor.shape, 2), fake.fake_device)
            self._complex.hold(fake, pair, self.outermost)
            with without_dispatch_overrides():
                data = in_pairs(data)
            self.adopt(pair, Value(pair.dtype, tuple(pair.shape), name=self.name_of(tensor), constant=data))
            return fake
        weight = Value(tensor.dtype, tuple(tensor.shape), name=self.name_of(tensor), constant=data)
        weight.is_learned = isinstance(tensor, torch.nn.Parameter)
        self.adopt(fake, weight)
        return fake

    def adopt(self, fake: FakeTensor, value: Value) -> None:
        """Note the value of the graph for a fake tensor."""
        self._values[id(fake)] = (fake, value)

    def fake_result(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The fake result of an operator, which is not recorded."""
        with without_keeping():
            return self.memo.result(func, (), args, kwargs, in_block=self.in_block)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor was made by this recording, rather than being the program's own."""
        return id(tensor) in self._values or self._complex.holds(tensor)

    @property
    def has_complex(self) -> bool:
        """Whether the program has complex tensors."""
        return self._complex.has_any

    def was_read(self, tensor: torch.Tensor) -> bool:
        """Whether the program has used this tensor of its own."""
        return id(tensor) in self._constants

    def value_of(self, tensor: torch.Tensor) -> Value:
        """The value of the graph for a tensor; for a complex one that of its parts."""
        known = self._values.get(id(tensor))
        if known is None and tensor.is_complex():
            return self.value_of(self._complex.pair(tensor if self._complex.holds(tensor) else self.constant(tensor)))
        if known is None:
            self._check_not_ours(tensor)
            known = self._values[id(self.constant(tensor))]
        return known[1]

    def stand_in(
        self, dtype: torch.dtype, shape: Sequence[Size], device: torch.device = _CPU, holds: Holds = Holds.TENSOR,
        strides: Sequence[Size] | None = None,
    ) -> FakeTensor:  # fmt: skip
        """A fake tensor that is not the result of an operator: for an input or output of a block, a list, an optional.
        It is contiguous unless strides are given."""
        fake = self.memo.empty(dtype, tuple(shape), device, strides)
        if dtype.is_complex and holds is Holds.TENSOR:
            of_pair = (*(2 * stride for stride in strides), 1) if strides else None
            self._complex.hold(fake, self.stand_in(dtype.to_real(), (*shape, 2), device, strides=of_pair))
            return fake
        value = Value(dtype, tuple(shape), holds=holds)
        self._values[id(fake)] = (fake, value)
        if self.fakes.symbols is not None and holds is Holds.TENSOR:
            self._note_sizes(value)
        return fake

    def release(self) -> list[FakeTensor]:
        """Drop the fake tensors after the recording. They form cycles, and take megabytes in a large program."""
        fakes = [fake for fake, _ in self._values.values()]
        self._values.clear()
        self._constants.clear()
        self.memo.release()
        self.at_end.clear()
        self.may_be_one.clear()
        self.layouts_asked.release()
        self._complex.release()
        return fakes

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _prim_device:
            return args[0].fake_device if isinstance(args[0], FakeTensor) else args[0].device
        kwargs = kwargs or {}
        if any(map(computes_itself, types)):
            return self.result_by_class(self, func, types, args, kwargs)
        if func is _DETACH and not self.lifts and not self.knows(args[0]):
            raise own_tensor_written(self.origins.find())  # Of `.data` of a parameter: a write to it would be lost.
        args = tuple([self._faked(argument) for argument in args])
        if kwargs:
            kwargs = {name: self._faked(argument) for name, argument in kwargs.items()}
        if func in _READS:
            if func is not _NUMBER_OF or not self._stays_symbolic(args[0]):
                return self._read(func, args)
            known = self._numbers.get(self.value_of(args[0]))
            if known is not None:
                return known
        elif func is _SIZES:
            if Decision.SELECT_PARTS not in self.decisions:
                raise Reconsider(Decision.SELECT_PARTS)
            raise PlainSizesError(
                *refused_here(
                    "torch asks for the sizes of a tensor as numbers, and one of them is dynamic: write to a slice, or "
                    "remove that axis from dynamic_axes"
                ).args
            )
        elif func is _SPLIT:
            self.reader.refuse_frozen_sizes(func, args[1])
        if schema_of(func).is_mutable:
            self._refuse_foreign_write(func, args)
        if self._complex.concern(func, args, kwargs):
            return self._complex.call(original(func), args, kwargs)
        decomposition = self._decomposition_of(original(func))
        if decomposition is not None:
            result = self.decomposed(decomposition, args, kwargs)
            if result is not NotImplemented:
                return result
        if self.random_numbers.is_seeded or "generator" in kwargs:
            drawn = self.random_numbers.drawn(original(func), args, kwargs)
            if drawn is not None:
                return self.__torch_dispatch__(_LIFT, (), (drawn,))
        with without_keeping(), without_function_overrides():  # Modes of the program do not see what is asked here.
            result = self.memo.result(func, types, args, kwargs, in_block=self.in_block)
        if isinstance(result, OfAnyRank):
            result = result.tensor
            self._record(original(func), args, kwargs, result, Holds.ANY_RANK)
            return result
        self._record(original(func), args, kwargs, result)
        if func is _NUMBER_OF and isinstance(result, (torch.SymInt, torch.SymFloat)):
            self.reader.scalars[str(result.node.expr)] = self.value_of(args[0])
            self._numbers[self.value_of(args[0])] = result
        return result

    def _append(self, node: Node) -> None:
        for pair in self.may_be_one:
            pair.note(self.last)
        self.nodes.append(node)
        self.last = node

    def decomposed(self, decomposition: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the decomposition of an operator. The few decompositions that write in place are functionalized."""
        before = len(self.nodes)
        with self:
            try:
                return decomposition(*args, **kwargs)
            except Reconsider as found:
                if Decision.WRAP_OWN_TENSORS not in found.decisions:
                    raise
                del self.nodes[before:]
                return torch.func.functionalize(decomposition, remove="mutations")(*args, **kwargs)
            finally:
                forget_layouts(self.nodes[before:])

    def _refuse_foreign_write(self, func: OpOverload, args: tuple[Any, ...]) -> None:
        """Refuse a write to a tensor other than the copies to inputs and buffers that functionalization ends with."""
        if func is _COPY and id(args[0]) in self._writable:
            return
        raise own_tensor_written(self.origins.find())

    def _faked(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            if id(argument) in self._values or self._complex.holds(argument):
                return argument
            self._check_not_ours(argument)
            return self.constant(argument)
        if isinstance(argument, list):
            return [self._faked(item) for item in argument]
        return argument

    def _check_not_ours(self, tensor: torch.Tensor) -> None:
        """Check that an unknown tensor is not from this recording. (A fake tensor of another mode is a weight that will
        be supplied later.)"""
        ours = isinstance(tensor, FakeTensor) and tensor.fake_mode is self.fakes
        if ours and not self.lifts:
            # For some tensors that `functionalize` does not know, torch returns others than the results recorded here.
            raise own_tensor_written(self.origins.find())
        assert not ours, "a tensor was made without being recorded"

    def _bound(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return self._values[id(argument)][1]
        if isinstance(argument, (list, tuple)):
            return [self._bound(item) for item in argument]
        return argument

    def _record(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, holds: Holds = Holds.TENSOR
    ) -> None:
        bound = dict(zip(_names_of(op), map(self._bound, args), strict=False))
        for name, argument in kwargs.items():
            bound[name] = self._bound(argument)
        if op is AUTOGRAD_FUNCTION:
            bound["call"] = FunctionCall.numbered(bound["call"])
        node = Node(op, bound, self.origins.find())
        rank_of = self.open_ranks.of_result(node) if self.open_ranks else None
        if rank_of is not None:
            holds = Holds.ANY_RANK
        tensors = result if isinstance(result, (list, tuple)) else (result,)
        for tensor in tensors:
            if not isinstance(tensor, FakeTensor):
                node.outputs.append(None)
                continue
            known = self._values.get(id(tensor))
            if known is not None and known[0] is tensor:
                # An operator that returns its own argument (lift_fresh, a write in place) still gives a new value.
                value = Value(tensor.dtype, known[1].shape, node=node, holds=holds)
            else:
                value = Value(tensor.dtype, tuple(tensor.shape), node=node, holds=holds)
                if self.fakes.symbols is not None and holds is Holds.TENSOR:
                    self._note_sizes(value)
            if holds is Holds.ANY_RANK:
                self.open_ranks.add(value, rank_of)
            self._values[id(tensor)] = (tensor, value)
            node.outputs.append(value)
        self._append(node)

    def fakes_by_value(self) -> dict[Value, FakeTensor]:
        return {value: fake for fake, value in self._values.values()}

    def program_has(self, name: str) -> bool:
        """Whether a name stands in the code of a function of the program."""
        return any(name in names for names in self.random_numbers.names)

    def shape_is_read(self, tensor: torch.Tensor) -> None:
        """Called where the program reads a shape. Its tensors are wrapped; fake ones are read by this package."""
        if self.open_ranks and not isinstance(tensor, FakeTensor) and self.knows(known := unwrapped(tensor)):
            self.open_ranks.refuse(self.value_of(known))

    def add(self, op: Primitive | OpOverload, arguments: dict[str, Any], results: Sequence[FakeTensor]) -> None:
        """Record a primitive, or an operator, that returns the fake tensors `results`."""
        node = Node(op, arguments, self.origins.find())
        if self.open_ranks and op not in TAKING_ANY_RANK:
            for value in (*node.inputs(), *(output for block in node.blocks() for output in block.outputs)):
                self.open_ranks.refuse(value)
        for fake in results:
            value = self.value_of(fake)
            value.node = node
            node.outputs.append(value)
            if value.holds is Holds.ANY_RANK:
                self.open_ranks.add(value)
        self._append(node)

    @property
    def in_block(self) -> bool:
        """Whether a branch or the body of a loop is being recorded."""
        return self.nodes is not self.outermost

    def listed(self, stack: Value) -> Value:
        """Record the list of the tensors along the first axis of `stack`."""
        node = Node(TO_LIST, {"stack": stack}, self.origins.find())
        value = Value(stack.dtype, stack.shape[1:], node=node, holds=Holds.LIST)
        node.outputs.append(value)
        self._append(node)
        return value

    # --- blocks ---------------------------------------------------------------------------------------------------

    @contextmanager
    def block(self, nodes: list[Node] | None = None) -> Iterator[list[Node]]:
        """A context in which operators are recorded into a new list of nodes, or at the end of the given one."""
        outer = self.nodes
        self.nodes = [] if nodes is None else nodes
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    def checkpoint(self) -> Checkpoint:
        """The state that `restore` returns to when a block is recorded again."""
        symbols = self.fakes.symbols
        counts = len(self.reader.reads), len(self.may_be_one), self.memo.count
        return Checkpoint([*map(dict, self._known())], dict(symbols.answers if symbols is not None else {}), *counts)

    def _known(self) -> tuple[dict[Any, Any], ...]:
        return self.size_sources, self.reader.scalars, self._numbers

    def restore(self, checkpoint: Checkpoint) -> None:
        for known, before in zip(self._known(), checkpoint.known, strict=True):  # The reader has the same objects.
            known.clear()
            known.update(before)
        if (symbols := self.fakes.symbols) is not None:
            symbols.answers = checkpoint.answers
        del self.reader.reads[checkpoint.reads :]
        del self.may_be_one[checkpoint.may_be_one :]
        self.memo.forget(checkpoint.results)

    def _note_sizes(self, value: Value) -> None:
        """Note where symbolic sizes can be read. A data-dependent size is read from the first value that has it."""
        for axis, size in enumerate(value.shape):
            if (
                not isinstance(size, int)
                and size.node.expr.is_Symbol
                and str(size.node.expr) not in self.reader.scalars
            ):
                self.size_sources.setdefault(str(size.node.expr), (value, axis))

    def symbol_sources(self) -> dict[str, SymbolSource[Value]]:
        """The values that symbols can be read from: the sizes of results (with an axis), and numbers (without)."""
        sizes = {name: SymbolSource(value, axis) for name, (value, axis) in self.size_sources.items()}
        return sizes | {name: SymbolSource(value, None) for name, value in self.reader.scalars.items()}

    # --- reading values -------------------------------------------------------------------------------------------

    def _read(self, func: OpOverload, args: tuple[Any, ...]) -> Any:
        def result(tensors: Sequence[torch.Tensor]) -> Any:
            with outside_of_modes():
                return func(*map(as_in_program, tensors, read), *args[len(read) :])

        values = [*map(self.value_of, read := [each for each in args if isinstance(each, torch.Tensor)])]
        of_sizes = self.size_conditions.get(values[0])
        if func is _NUMBER_OF and (decided := self.reader.decided_within(values[0], args[0], of_sizes)) is not None:
            return decided
        return result(self.reader.read(values)) if func is _NUMBER_OF else self.reader.answer(values, result)

    def read_out(self, tensor: torch.Tensor) -> torch.Tensor:
        """The real tensor for a fake one, computed from the example inputs."""
        if not self.knows(tensor := unwrapped(tensor)):
            return self.reader.with_data(tensor)
        return as_in_program(self.reader.read([self.value_of(tensor)])[0], tensor)

    def numbers_stay_symbolic(self, tensor: torch.Tensor) -> bool:
        """Whether the numbers of a tensor become symbols when the program makes a list of them."""
        tensor = unwrapped(tensor)
        is_short = all(isinstance(size, int) for size in tensor.shape) and tensor.numel() <= MOST_LISTED
        return is_short and self.knows(tensor) and self._stays_symbolic(tensor)

    def _stays_symbolic(self, tensor: torch.Tensor) -> bool:
        return not tensor.dtype.is_complex and self.reader.stays_symbolic(self.value_of(tensor))
