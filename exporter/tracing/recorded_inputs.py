"""The inputs of a recording: a fake tensor for each example, its dynamic axes as symbols, and a value of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from onnx_parity.exporter.containers import closed, holds_objects, named_leaves, opened
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.multiples import multiple_of
from onnx_parity.exporter.graph.graph import Input, Size, SymbolSource, Value, same_size
from onnx_parity.exporter.kinds.quantized import Quantized
from onnx_parity.exporter.recording.fakes.input_layouts import InputLayout, strides_like
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.request.call_arguments import parameter_names, signature_of
from onnx_parity.exporter.request.dynamic_axes import Axes, Named
from onnx_parity.exporter.request.marked_inputs import Held, ListOf, example_of, is_input
from onnx_parity.exporter.request.size_expressions import (
    AxisSize,
    evaluated,
    is_expression,
    minuend,
    size_named,
)
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.transforms import has_other_shape, is_functional_tensor

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
    from onnx_parity.exporter.recording.marked_arguments import MarkedInput

__all__ = ["Changed", "RecordedInputs", "before_copy"]

_Path = tuple[str | int, ...]


class Changed(msgspec.Struct, frozen=True):
    """What a program put into the objects among its arguments."""

    #: The new tensors in the place of inputs, by the number of the input.
    inputs: dict[int, torch.Tensor]
    #: Tensors in places where there were none, by the spelling of the place.
    new: dict[str, torch.Tensor]
    #: The places of numbers that have changed.
    numbers: list[str]


class RecordedInputs:
    """The tensors and the marked arguments of a program, as fake tensors and as values of the graph."""

    def __init__(
        self,
        recorder: Recorder,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        names: Sequence[str],
        axes: Axes,
        empty: str | None = None,
        others: Mapping[str, int] = {},
        layouts: Mapping[int, InputLayout] = {},
    ) -> None:
        """`empty` is the name of an axis that has the size 0, and `others` are sizes to record with instead of the
        example's, by the names of axes. `layouts` are other layouts than the example's, by the numbers of inputs."""
        self._recorder = recorder
        self._axes = axes
        self._others = others
        self._layouts = layouts
        self._names = names
        #: The inputs of the graph, in the order of the flattened arguments.
        self.inputs: list[Input] = []
        #: The fake tensors of the inputs that are tensors, in their order.
        self.fakes: list[FakeTensor] = []
        #: The name that the user gave to the axis of each symbol.
        self.axis_names: dict[str, str] = {}
        #: For each symbol, the axis of an input that it is read from.
        self.size_sources: dict[str, SymbolSource[Value]] = {}
        self._sizes: dict[str, Size] = {} if empty is None else {empty: 0}
        self._example = (tuple(args), dict(kwargs))
        self._leaves, self._spec = pytree.tree_flatten(self._example)
        #: Whether there are objects among the arguments that the program may put tensors into.
        self.has_objects = holds_objects(self._example)
        #: The tensors that the program is called with, by their positions among the leaves.
        self._given: dict[int, torch.Tensor] = {}
        #: The marked inputs (`ListOf`, `OrNone`, `AnyNumber`) by their position among the leaves.
        self._marked: dict[int, MarkedInput] = {}
        #: The positions of the tensors among the leaves, and the number of each among the inputs.
        self._tensors: list[tuple[int, int]] = []
        positions = [position for position, leaf in enumerate(self._leaves) if is_input(leaf)]
        self._make_sizes([self._leaves[position] for position in positions])
        for number, position in enumerate(positions):
            leaf = self._leaves[position]
            if isinstance(leaf, Held):
                marked = self._marked[position] = self._marked_input(number, leaf)
                self.inputs.append(Input(marked.value, names[number], leaf.item))
            else:
                self._tensors.append((position, number))
                self._add_tensor(number, leaf)

    def _make_sizes(self, inputs: Sequence[Any]) -> None:
        """Make the sizes of axes whose names are expressions over the names of others, from the sizes of those."""
        names = self._axes.names
        expressions = [name for name in names if is_expression(name, names)]
        if not expressions:
            return
        self._make_bases(inputs)
        for number, named in self._axes.inputs.items():
            if isinstance(inputs[number], torch.Tensor):
                self._shape(inputs[number], {axis: name for axis, name in named.items() if name not in expressions})
        for name in sorted(expressions):
            self._sizes[name] = evaluated(name, self._sizes)

    def _make_bases(self, inputs: Sequence[Any]) -> None:
        """Make the sizes that no axis has itself, from the first axes that are multiples of them."""
        for number, named in self._axes.inputs.items():
            for axis, name in named.items():
                known = multiple_of(name)
                if known is None or known.base not in self._axes.bases or known.base in self._sizes:
                    continue
                self._make_size(known.base, known.base_of(example_of(inputs[number]).shape[axis]))

    def _add_tensor(self, number: int, example: torch.Tensor) -> None:
        recorder, name, dynamic = self._recorder, self._names[number], self._axes.inputs.get(number, {})
        shape = self._shape(example, dynamic) if dynamic else None
        fake = _fake_like(example, shape, recorder.fakes, self._layouts.get(number))
        value = recorder.input(fake, name, example)
        for axis, axis_name in dynamic.items():
            size = self._sizes[axis_name]
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                self.size_sources.setdefault(str(size.node.expr), SymbolSource(value, axis))
            self._note_base(axis_name, value, axis, example)
        self.inputs.append(Input(value, name, example))
        self.fakes.append(recorder.writable(fake))

    def _note_base(self, name: str, value: Value, axis: int, example: torch.Tensor) -> None:
        """Note that a size which no axis has itself is read from an axis that is a multiple of it. The size of this
        axis is a symbol too, in which the conditions are that the caller declares for it."""
        known = multiple_of(name) if self._axes.bases else None
        if known is None or known.base not in self._axes.bases or name in self.axis_names.values():
            return
        base = self._sizes[known.base]
        if isinstance(base, torch.SymInt):
            self.size_sources.setdefault(str(base.node.expr), SymbolSource(value, axis, known.factor, known.offset))
        whole = self._symbol(name, example.shape[axis])
        self.size_sources[str(whole.node.expr)] = SymbolSource(value, axis)

    def _marked_input(self, number: int, leaf: Held) -> MarkedInput:
        from onnx_parity.exporter.recording.marked_arguments import MarkedInput

        name, dynamic = self._names[number], self._axes.inputs.get(number, {})
        if isinstance(leaf.mark, ListOf):
            return MarkedInput.of_list(self._recorder, leaf, name, dynamic, self.axis_names)
        return MarkedInput(self._recorder, leaf, name, self._shape(leaf.item, dynamic))

    def _shape(self, example: torch.Tensor, dynamic: Named) -> list[Size]:
        """The shape of an example, with a symbol for each dynamic axis; axes of one name share one symbol."""
        shape: list[Size] = list(example.shape)
        for axis, name in dynamic.items():
            if name not in self._sizes:
                self._make_size(name, example.shape[axis])
            shape[axis] = self._sizes[name]
        return shape

    def _make_size(self, name: str, example: int) -> None:
        self._sizes[name] = self._symbol(name, example)

    def _symbol(self, name: str, example: int) -> torch.SymInt:
        symbols = self._recorder.fakes.symbols
        assert symbols is not None
        size = symbols.new_size(name, example, self._axes.ranges.get(name), self._others.get(name))
        self.axis_names[str(size.node.expr)] = name
        return size

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to call the program with: these tensors in the place of the examples."""
        filled = list(self._leaves)
        for (position, _), tensor in zip(self._tensors, tensors, strict=True):
            filled[position] = tensor
        for position, marked in self._marked.items():
            filled[position] = marked.handed_out(self.size_sources)
        for position, leaf in enumerate(filled):
            if isinstance(leaf, AxisSize):
                filled[position] = size_named(leaf.axis, self._sizes)
        if self.has_objects:
            self._given = {position: filled[position] for position, _ in self._tensors}
        arguments: tuple[tuple[Any, ...], dict[str, Any]] = closed(
            pytree.tree_unflatten(filled, self._spec), Quantized.of_input
        )
        return arguments

    def require_gradients(self) -> list[bool]:
        """For each input that is a tensor, whether its example requires gradients."""
        return [self._leaves[position].requires_grad for position, _ in self._tensors]

    def changed_in_objects(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], program: Callable[..., Any]
    ) -> Changed:
        """What the program put into the objects among its arguments, which were made for this recording."""
        if not self.has_objects:
            return Changed({}, {}, [])
        parameters = parameter_names(signature_of(program))
        before = {path: (place, leaf) for place, (path, leaf) in enumerate(named_leaves(self._example))}
        after = dict(named_leaves(opened((tuple(args), dict(kwargs)))))
        numbers = dict(self._tensors)
        tensors: dict[int, torch.Tensor] = {}
        new: dict[str, torch.Tensor] = {}
        others: list[str] = []
        for path, leaf in after.items():
            place, example = before.get(path, (None, None))
            if isinstance(leaf, torch.Tensor):
                if place in numbers:
                    if leaf is not self._given.get(place):
                        tensors[numbers[place]] = leaf
                else:
                    new[_spelled(path, parameters)] = leaf
            elif isinstance(example, int) and not self._is_as_before(path, leaf, example, before, after):
                others.append(_spelled(path, parameters))
        return Changed(tensors, new, others)

    def _is_as_before(
        self, path: _Path, now: Any, example: int, before: Mapping[_Path, tuple[int, Any]], after: Mapping[_Path, Any]
    ) -> bool:
        """Whether a number in an object is unchanged, or was and is the size of one axis of a tensor beside it. Where
        there is a tensor beside it now and was none, the model takes no such object as it gives back."""
        given = size_named(example.axis, self._sizes) if isinstance(example, AxisSize) else example
        if type(now) not in (int, torch.SymInt) or same_size(now, given):
            return True
        if isinstance(example, AxisSize) and (whole := minuend(example.axis)) in self._sizes:
            # "all - sequence" becomes "all", which is what "all - sequence" is in the next call.
            return same_size(self._sizes[whole], now)
        numbers = dict(self._tensors)
        for other, (place, tensor) in before.items():
            new = after.get(other)
            if other[:-1] != path[:-1] or not isinstance(new, torch.Tensor):
                continue
            if not isinstance(tensor, torch.Tensor):
                return True
            named = self._axes.inputs.get(numbers[place], {})
            for axis, size in enumerate(tensor.shape[: new.ndim]):
                same_axis = named.get(axis) == example.axis if isinstance(example, AxisSize) else size == example
                if same_axis and same_size(new.shape[axis], now):
                    return True
        return False

    def refuse_written(self, given_back: Sequence[torch.Tensor]) -> None:
        """Refuse writes to marked inputs, and other shapes of those that are `given_back`. Called when the program has
        run."""
        if any(is_functional_tensor(each) and has_other_shape(each) for each in given_back):
            raise CaptureError(
                "the program gives an input another shape in place, as x.unsqueeze_(0) does, and return_written=True "
                "returns what it writes to inputs in the shape that they had: return the new value from the program"
            )
        for marked in self._marked.values():
            marked.refuse_written()

    def numbers(self) -> list[Value]:
        """The inputs that are numbers."""
        return [marked.value for marked in self._marked.values() if marked.is_number]

    def release(self) -> None:
        """Release the fake tensors."""
        self._given.clear()
        self.fakes.clear()
        self._marked.clear()

    def tensor_inputs(self) -> Iterator[tuple[int, FakeTensor]]:
        """The inputs that are tensors: the number of each among the inputs, and its fake."""
        return zip((number for _, number in self._tensors), self.fakes, strict=True)


def _spelled(path: Sequence[str | int], parameters: Sequence[str]) -> str:
    """A path among the arguments as Python writes it: `cache.layers[0].keys`."""
    _, argument, *rest = path
    if isinstance(argument, int):
        argument = parameters[argument] if argument < len(parameters) else f"args[{argument}]"
    return argument + "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in rest)


def _fake_like(
    example: torch.Tensor, shape: Sequence[Size] | None, fakes: Fakes, layout: InputLayout | None
) -> FakeTensor:
    # A tensor on the device "meta" has no data yet. It is treated as a tensor on the CPU.
    device = torch.device("cpu") if example.is_meta else example.device
    if shape is None:
        strides = example.stride() if layout is None else layout.strides(example.shape)
        return fakes.tensor(torch.empty_strided(example.shape, strides, dtype=example.dtype, device="meta"), device)
    if layout is None and (example.layout is not torch.strided or example.is_contiguous()):
        return fakes.tensor(fakes.contiguous(example.dtype, shape), device)
    strides = strides_like(example, shape) if layout is None else layout.strides(shape)
    return fakes.tensor(fakes.strided(example.dtype, shape, strides), device)


def before_copy(value: Value) -> Value:
    """The value that functionalization copies to an input at the end."""
    node = value.node
    source = node.arguments["src"] if node is not None and node.op is torch.ops.aten.copy_.default else value
    return source if isinstance(source, Value) else value
