"""The complex tensors of a recording: the parts of each, and what is recorded instead of operators on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from onnx_parity.exporter.dtypes import result_dtype
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.graph import Node, Primitive, Value, operator_name
from onnx_parity.exporter.kinds.complex_parts import Parts, is_complex_dtype, rules
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, can_be_decomposed, decomposition_table
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.pytree import tree_any, tree_map

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.recorder import Recorder

__all__ = ["ComplexValues", "as_in_program"]

_aten = torch.ops.aten
#: Operators on real tensors whose results are complex.
_MAKERS = frozenset(
    {
        _aten.complex.default,
        _aten.polar.default,
        _aten.view_as_complex.default,
        _aten._fft_r2c.default,
        _aten.linalg_eig.default,
    }
)
_VIEW_AS_REAL = _aten.view_as_real.default
_SELECT = _aten.select.int
_COPY_INTO = _aten.copy_.default
#: Operators that refer to positions in memory.
_BY_MEMORY = frozenset({_aten.as_strided.default, _aten.as_strided_copy.default, _aten.as_strided_scatter.default})
_NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat)


class _Held(msgspec.Struct):
    """A complex tensor: its parts, or one tensor of them, or both."""

    fake: torch.Tensor
    parts: Parts | None = None
    pair: torch.Tensor | None = None
    #: The nodes to which what makes the one from the other is added, so that it is known wherever the tensor is; None
    #: for the input of a branch or loop: where it is used.
    home: list[Node] | None = None
    #: The nodes in which the parts of such an input were made.
    made_in: list[Node] | None = None


class ComplexValues:
    """The complex tensors of a recording by their ids, and the rules applied to them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._held: dict[int, _Held] = {}
        #: The results of `view_as_real`, by their ids, with the parts that `x.real` and `x.imag` select from them.
        self._viewed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def hold(self, fake: FakeTensor, pair: torch.Tensor, home: list[Node] | None = None) -> None:
        """Note that a complex tensor has its parts on the last axis of another."""
        self._held[id(fake)] = _Held(fake, pair=pair, home=home)

    def holds(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._held

    @property
    def has_any(self) -> bool:
        return bool(self._held)

    def release(self) -> None:
        self._held.clear()
        self._viewed.clear()

    def pair(self, tensor: torch.Tensor) -> torch.Tensor:
        """The parts of a complex tensor as one real tensor."""
        held = self._held[id(tensor)]
        if held.pair is None:
            assert held.parts is not None
            with self._recorder.block(held.home), self._recorder:
                held.pair = torch.stack(list(held.parts), -1)
        return held.pair

    def concern(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether an operator takes or returns complex numbers."""
        if func in _MAKERS or complex in map(type, args):
            return True
        if kwargs and any(is_complex_dtype(each) or type(each) is complex for each in kwargs.values()):
            return True
        if not self._held:
            return False
        return (func is _SELECT and id(args[0]) in self._viewed) or tree_any(self._is_held, (args, kwargs))

    def _is_held(self, argument: object) -> bool:
        return id(argument) in self._held

    def call(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record an operator on complex tensors, and return its results."""
        if func is _VIEW_AS_REAL:
            return self._viewed_as_real(args[0])
        if func is _SELECT and id(args[0]) in self._viewed:
            return self._selected(*args)
        rule = rules().get(func.name())
        if func in _BY_MEMORY and not args[0].is_contiguous():
            return self._refused(func, args, kwargs)
        if rule is not None:
            arguments, keywords = self._given(list(args)), self._given(kwargs)
            with self._recorder:
                if places := rule.promoted_places(func):
                    arguments = _promoted(args, arguments, places)
                results = rule.call(func, arguments, keywords)
            if results is not NotImplemented:
                return self._handed_out(func, args, kwargs, results)
        if func is _COPY_INTO:
            return self._written(args)
        decomposition = decomposition_table.get(func) or (func.decompose if can_be_decomposed(func) else None)
        if decomposition is not None:
            with suppress(CaptureError):  # Some write in place to tensors that were made on the way.
                result = self._recorder.decomposed(decomposition, args, kwargs)
                if result is not NotImplemented:
                    return result
        return self._refused(func, args, kwargs)

    # --- arguments ----------------------------------------------------------------------------------------------------

    def _given(self, arguments: Any) -> Any:
        """The arguments of a rule: `Parts` in the place of complex tensors and numbers."""

        def given(argument: Any) -> Any:
            if isinstance(argument, complex):
                return Parts(argument.real, argument.imag)
            return self._parts(argument) if id(argument) in self._held else argument

        return tree_map(given, arguments)

    def _parts(self, tensor: torch.Tensor) -> Parts:
        held = self._held[id(tensor)]
        here = self._recorder.nodes if held.home is None else held.home
        if held.parts is None or (held.made_in is not None and held.made_in is not here):
            assert held.pair is not None
            with self._recorder.block(here), self._recorder:
                held.parts = Parts(held.pair.select(-1, 0), held.pair.select(-1, 1))
            held.made_in = here
        return held.parts

    # --- results ------------------------------------------------------------------------------------------------------

    def _handed_out(self, func: OpOverload, args: Any, kwargs: Any, results: Any) -> Any:
        """The results of an operator for the program: a complex tensor for each `Parts`, which have one shape."""
        if isinstance(results, (list, tuple)) and not isinstance(results, Parts):
            return [self._handed_out(func, args, kwargs, each) for each in results]
        if not isinstance(results, Parts):
            return results
        real, imag = results
        with self._recorder:
            # A rule leaves a part a number where it is the same everywhere.
            real = real if isinstance(real, torch.Tensor) else torch.full_like(imag, real)
            imag = imag if isinstance(imag, torch.Tensor) else torch.full_like(real, imag)
        fake = self._recorder.memo.empty(real.dtype.to_complex(), tuple(real.shape), real.device)
        self._held[id(fake)] = _Held(fake, parts=Parts(real, imag), home=self._recorder.nodes)
        return fake

    def _viewed_as_real(self, tensor: torch.Tensor) -> torch.Tensor:
        pair = self.pair(tensor)
        with self._recorder:
            view: torch.Tensor = _aten.alias.default(pair)
        self._viewed[id(view)] = (view, tensor)
        return view

    def _selected(self, view: torch.Tensor, dim: int, index: Any) -> torch.Tensor:
        """What is selected from `view_as_real`: a part, if it is selected from the last axis."""
        tensor = self._viewed[id(view)][1]
        is_part = dim % view.dim() == view.dim() - 1
        part = self._parts(tensor)[index] if is_part else self.pair(tensor)
        with self._recorder:
            return _aten.alias.default(part) if is_part else _aten.select.int(part, dim, index)  # type: ignore[no-any-return]

    def _written(self, args: tuple[Any, ...]) -> torch.Tensor:
        """A write into an input or buffer, which has its new value from then on."""
        into: torch.Tensor = args[0]
        source = args[1]
        if not self.holds(into):
            part = self._parts(source).real
            with self._recorder:
                return _COPY_INTO(into, part)  # type: ignore[no-any-return]
        before, new = self._parts(into), self._given(source)
        with self._recorder:
            real, imag = rules()["aten::copy"].call(_aten.copy.default, (before, new), {})
        self._held[id(into)] = _Held(into, parts=Parts(real, imag), home=self._recorder.nodes)
        return into

    def _refused(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record an operator that has neither rule nor decomposition: the lowering refuses it if it is needed."""
        recorder = self._recorder
        result = recorder.fake_result(func, args, kwargs)
        node = Node(Primitive(f"{operator_name(func)} of complex numbers"), {}, recorder.origins.find())
        for each in result if isinstance(result, (list, tuple)) else (result,):
            if each.is_complex():
                pair = recorder.stand_in(each.dtype.to_real(), (*each.shape, 2), each.fake_device)
                self.hold(each, pair)
            else:
                recorder.adopt(each, Value(each.dtype, tuple(each.shape)))
                pair = each
            value = recorder.value_of(pair)
            value.node = node
            node.outputs.append(value)
        recorder.nodes.append(node)
        return result


def _promoted(args: tuple[Any, ...], given: list[Any], places: Collection[int]) -> list[Any]:
    """What is given to a rule, with the arguments at some places in the dtype that torch computes them in."""
    operands = _leaves([each for place, each in enumerate(args) if place in places])
    tensors = [(each.dtype, each.dim()) for each in operands if isinstance(each, torch.Tensor)]
    # A complex number makes the result complex, of the width that it has without.
    numbers = [each.real if isinstance(each, complex) else each for each in operands if isinstance(each, _NUMBERS)]
    dtype = result_dtype(tensors, numbers)
    real = dtype.to_real() if dtype.is_complex else dtype
    if real is torch.bfloat16:
        real = torch.float32  # There are no complex numbers of bfloat16.

    def promoted(argument: Any) -> Any:
        return argument.to(real) if isinstance(argument, torch.Tensor) and argument.dtype is not real else argument

    return [tree_map(promoted, each) if place in places else each for place, each in enumerate(given)]


def _leaves(args: Any) -> list[Any]:
    flat: list[Any] = []
    for each in args:
        flat += _leaves(each) if isinstance(each, (list, tuple)) else [each]
    return flat


def as_in_program(read: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """What was read for a tensor: for a complex one, the graph has its parts."""
    return torch.view_as_complex(read.contiguous()) if tensor.is_complex() else read
