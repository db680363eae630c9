"""Capture by tracing: run the program once over fake tensors and record what it did. Nothing is computed or copied."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.fakes.fake_mode import Fakes
from onnx_parity.exporter.capture.graph.graph import Graph, Holds, Input, Value
from onnx_parity.exporter.capture.graph.origin import OriginFinder, last_user_line
from onnx_parity.exporter.capture.patches.recording import capturing_surroundings, recording_surroundings
from onnx_parity.exporter.capture.record.lifted import Lifting
from onnx_parity.exporter.capture.record.marked_arguments import HeldInput
from onnx_parity.exporter.capture.record.module_state import buffers_of, preserved
from onnx_parity.exporter.capture.record.recorder import NeedsSymbols, OwnTensorWritten, Recorder, own_tensor_written
from onnx_parity.exporter.capture.record.results import Kind, Returned, TensorList, Written, taken_apart
from onnx_parity.exporter.capture.record.values_read import LoopValueError, TracerWarning
from onnx_parity.exporter.capture.replace.dispatch import keeping_composites
from onnx_parity.exporter.capture.sizes.subscripts import SymbolicSubscripts
from onnx_parity.exporter.errors import CaptureError, DynamicAxisError, ExportError, FrozenValueError
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.request.marked_inputs import Held, ListOf, is_input

if TYPE_CHECKING:
    from onnx_parity.exporter.capture.sizes.shape_env import Assumption, HintedShapeEnv

__all__ = ["Traced", "named_weights", "trace", "weights_of"]


@dataclass(slots=True)
class Traced:
    """A recorded program and how its outputs were structured."""

    graph: Graph
    returned: Returned
    #: Names of buffers, inputs and attributes that the program wrote to, and whose new values are no outputs.
    written: list[str] = field(default_factory=list)


def trace(
    program: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    input_names: Sequence[str],
    axes: Axes,
    decomposition_of: Callable[[OpOverload], Callable[..., Any] | None],
    weight_names: Sequence[str] = (),
    strict: bool = False,
    return_written: bool = False,
) -> Traced:
    """Record `program(*args, **kwargs)`. The tensors, and what is `Held`, among the arguments, flattened, are the
    inputs, named in order.

    Weights are called as they are in the module, or by `weight_names` in the order of `weights_of(program)`.
    `return_written` makes outputs of what the program wrote to buffers, attributes and inputs, after its own.
    Automatic axes that the program fixes are taken as static; any other that it fixes is an error.
    """
    request = _Request(program, args, kwargs, input_names, decomposition_of, weight_names, strict, return_written)
    # Static programs are traced without a ShapeEnv, which costs nothing.
    way = _Way(axes, symbols=bool(axes.inputs))
    failure: BaseException | None = None
    while True:
        try:
            with capturing_surroundings():
                return _trace(request, way)
        except _NumbersInTheWay as error:
            # What it does with a number cannot be done with a symbol: the example's is built in, and that is said.
            failure = error.__cause__
            way = replace(way, symbols=bool(way.axes.inputs), freezes=True)
        except LoopValueError:
            if not isinstance(failure, Exception):
                raise
            # Nothing can be built in for what has a value in each iteration: it is the symbol that did not do.
            raise _capture_error(failure) from failure
        except OwnTensorWritten as error:
            if way.lifts:
                raise CaptureError(*error.args) from None
            way = replace(way, lifts=True)
        except (DynamicOutputShapeException, DataDependentOutputException, NeedsSymbols) as error:
            if way.symbols:
                raise _capture_error(error) from error
            # This one's sizes depend on values.
            way = replace(way, symbols=True)
        except _FixedAutomatically as found:
            way = replace(way, axes=way.axes.without(found.names))


@dataclass(frozen=True, slots=True)
class _Request:
    """What `trace` was asked for."""

    program: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    input_names: Sequence[str]
    decomposition_of: Callable[[OpOverload], Callable[..., Any] | None]
    weight_names: Sequence[str]
    strict: bool
    return_written: bool


@dataclass(frozen=True, slots=True)
class _Way:
    """How a program is recorded. The cheapest way is tried first; what goes wrong says which the next one is."""

    axes: Axes
    #: Sizes and numbers may be symbols.
    symbols: bool
    #: Tensors that the program owns are followed as its inputs are.
    lifts: bool = False
    #: Numbers that are read are taken from the example.
    freezes: bool = False


class _NumbersInTheWay(Exception):
    """The recording failed after a number that depends on an input had become a symbol."""


class _FixedAutomatically(Exception):
    """Axes that were to vary if they can cannot."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self.names = names


def _trace(request: _Request, way: _Way) -> Traced:
    program, axes, input_names = request.program, way.axes, request.input_names
    symbols = _symbols() if way.symbols else None
    leaves, spec = pytree.tree_flatten((tuple(request.args), dict(request.kwargs)))
    positions = [position for position, leaf in enumerate(leaves) if is_input(leaf)]
    fakes = Fakes(symbols)
    recorder = Recorder(
        fakes,
        OriginFinder(program),
        _name_finder(program, request.weight_names),
        request.decomposition_of,
        request.strict,
        way.lifts,
        way.freezes,
    )
    if symbols is not None:
        symbols.read_symbol = recorder.reader.read_symbol
        symbols.module_running = lambda: recorder.origins.find().module
    axis_names: dict[str, str] = {}
    sources: dict[str, tuple[Value, int]] = {}
    sizes: dict[str, torch.SymInt] = {}
    inputs: list[Input] = []
    input_fakes: list[FakeTensor] = []
    held: dict[int, HeldInput] = {}
    for number, position in enumerate(positions):
        leaf = leaves[position]
        example: torch.Tensor = leaf.item if isinstance(leaf, Held) else leaf
        named = axes.inputs.get(number, {})
        if isinstance(leaf, Held) and isinstance(leaf.mark, ListOf):
            held[position] = HeldInput.of_list(recorder, leaf, input_names[number], named, axis_names)
            inputs.append(Input(held[position].value, input_names[number], example))
            continue
        shape: list[Any] = list(example.shape)
        for axis, name in named.items():
            if name not in sizes:
                assert symbols is not None
                sizes[name] = symbols.new_size(name, example.shape[axis], axes.ranges.get(name))
                axis_names[str(sizes[name].node.expr)] = name
            shape[axis] = sizes[name]
        if isinstance(leaf, Held):
            held[position] = HeldInput(recorder, leaf, input_names[number], shape)
            inputs.append(Input(held[position].value, input_names[number], example))
            continue
        fake = _fake_like(example, shape if named else None, fakes)
        value = recorder.input(fake, input_names[number], example)
        for axis, name in named.items():
            sources.setdefault(str(sizes[name].node.expr), (value, axis))
        inputs.append(Input(value, input_names[number], example))
        input_fakes.append(recorder.writable(fake))

    tensor_positions = [position for position in positions if position not in held]
    buffers = buffers_of(program)
    buffer_fakes = [recorder.writable(recorder.constant(buffer.tensor)) for buffer in buffers]
    structures: list[Returned] = []
    assigned: dict[str, torch.Tensor] = {}
    lost: list[str] = []
    own: list[torch.Tensor] = []

    def run(tensors: list[torch.Tensor], buffer_tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        filled = list(leaves)
        for position, tensor in zip(tensor_positions, tensors, strict=True):
            filled[position] = tensor
        for position, entry in held.items():
            filled[position] = entry.handed_out(sources)
        call_args, call_kwargs = pytree.tree_unflatten(filled, spec)
        lifting: AbstractContextManager[Lifting | None] = Lifting(recorder) if way.lifts else nullcontext()
        with preserved(program, buffers, buffer_tensors, recorder.was_read) as anew, lifting as lifted:
            result = program(*call_args, **call_kwargs)
        for entry in held.values():
            entry.refuse_written()
        lost.extend(name for name, new in anew.items() if not isinstance(new, torch.Tensor))
        assigned.update((name, new) for name, new in anew.items() if isinstance(new, torch.Tensor))
        structure, outputs = taken_apart(result)
        structures.append(structure)
        if lifted is None:
            return [*outputs, *assigned.values()]
        own.extend(lifted.own)
        return [*outputs, *assigned.values(), *lifted.wrapped]

    try:
        subscripts = SymbolicSubscripts() if symbols is not None else nullcontext()
        with recording_surroundings(recorder), subscripts, recorder, keeping_composites():
            results = torch.func.functionalize(run, remove="mutations")(input_fakes, buffer_fakes)
            values = [recorder.value_of(result) for result in results]
    except (ExportError, _FixedAutomatically, DynamicOutputShapeException, DataDependentOutputException):
        raise
    except Exception as error:
        if recorder.reader.refusal is not None:
            raise recorder.reader.refusal from error
        if not way.lifts and isinstance(error, RuntimeError) and "non-functional tensor" in str(error):
            raise OwnTensorWritten from error
        if recorder.reader.scalars:
            raise _NumbersInTheWay from error
        if symbols is None and "data is not allocated" in str(error):
            # torch.tensor([x[0], x[1]]) reads memory; where there are symbols it is written otherwise.
            raise NeedsSymbols from error
        unlike = [str(symbol) for symbol in symbols.unlike_the_example()] if symbols is not None else []
        raise _capture_error(error, axis_names, unlike) from error
    count = len(values) - len(own) - len(assigned)
    output_values, assigned_values = values[:count], values[count : count + len(assigned)]
    for tensor, value in zip(own, values[count + len(assigned) :], strict=True):
        if value.node is not None:
            raise CaptureError(*own_tensor_written(recorder.name_of(tensor), value.node.origin).args)
    if symbols is not None:
        _refuse_fixed_axes(symbols, axis_names, axes.automatic)
        _say_what_sizes_decided(symbols, axis_names, request.strict)
        symbols.closed = True
    recorder.reader.warn()

    after = {Written(buffer.path): recorder.value_of(fake) for buffer, fake in zip(buffers, buffer_fakes, strict=True)}
    places = [place for place, position in enumerate(positions) if position not in held]
    for place, fake in zip(places, input_fakes, strict=True):
        after[Written(input_names[place], place)] = recorder.value_of(fake)
    written = {end: value for end, value in after.items() if value.node is not None}
    written |= {Written(name): value for name, value in zip(assigned, assigned_values, strict=True)}
    returned = structures[0]
    outputs_of = [kind for kind in returned.kinds if kind is not Kind.PLAIN]
    for place, kind in enumerate(outputs_of):
        if kind in (Kind.LIST, Kind.NUMBERS) and output_values[place].holds is not Holds.LIST:
            output_values[place] = recorder.listed(output_values[place])
    if request.return_written:
        output_values += written.values()
        returned = replace(returned, written=tuple(written))
        written = {}
    graph = Graph(inputs, recorder.nodes, output_values, axis_names, recorder.symbol_sources() | sources)
    recorder.release()
    return Traced(graph, returned, [*(end.name for end in written), *lost])


def _symbols() -> HintedShapeEnv:
    # sympy and what torch builds on it take 0.2 s to import, and programs of static sizes need none of it.
    from onnx_parity.exporter.capture.sizes.shape_env import HintedShapeEnv

    return HintedShapeEnv()


def _fake_like(example: torch.Tensor, shape: list[Any] | None, fakes: FakeTensorMode) -> FakeTensor:
    # Weights without data stand for some on a device that has memory.
    device = torch.device("cpu") if example.is_meta else example.device
    if shape is None:
        meta = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype, device="meta")
        return FakeTensor(fakes, meta, device)
    with fakes:
        fake = torch.empty(shape, dtype=example.dtype, device=device)
    assert isinstance(fake, FakeTensor)
    return fake


def _name_finder(program: object, requested: Sequence[str]) -> Callable[[torch.Tensor], str]:
    if not isinstance(program, torch.nn.Module):
        return lambda tensor: ""
    weights = weights_of(program) if requested else ()
    names = {id(tensor): name for tensor, name in zip(weights, requested, strict=False)}
    for name, parameter in program.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), name)
    for name, buffer in program.named_buffers(remove_duplicate=False):
        names.setdefault(id(buffer), name)
    return lambda tensor: names.get(id(tensor), "")


def weights_of(program: object) -> list[torch.Tensor]:
    """Parameters and buffers in the order of the state dict, each once."""
    if not isinstance(program, torch.nn.Module):
        return []
    return list({id(tensor): tensor for tensor in program.state_dict(keep_vars=True).values()}.values())


def named_weights(program: object, requested: Sequence[str]) -> list[tuple[str, torch.Tensor]]:
    """Parameters and buffers in the order of the state dict, each once, by the names that they have in a recording."""
    name_of = _name_finder(program, requested)
    return [(name_of(tensor), tensor) for tensor in weights_of(program)]


def _capture_error(
    error: Exception, axis_names: Mapping[str, str] | None = None, unlike_the_example: Sequence[str] = ()
) -> CaptureError:
    line = last_user_line(error)
    where = f" at {line}" if line else ""
    if isinstance(error, TypeError) and TensorList.__name__ in str(error):
        return CaptureError(f"the program hands a list whose length varies to an operator{where}. {TensorList.REMEDY}")
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    if isinstance(error, GuardOnDataDependentSymNode):
        return CaptureError(
            f"the program decided by a number that it computed from values{where}: {error.cond}\n"
            "What it is depends on the input, so neither way can be built in. Decide by sizes of inputs, use "
            "torch.where or torch.cond, or promise what holds with torch._check."
        )
    if axis_names and unlike_the_example:
        names = ", ".join(repr(axis_names[symbol]) for symbol in unlike_the_example)
        said = re.sub(r"\bs\d+\b", lambda symbol: axis_names.get(symbol[0], symbol[0]), str(error))
        return CaptureError(
            f"the program failed while it was recorded{where}: {type(error).__name__}: {said}\n"
            f"The size of {names} is 0 or 1 in the example, and was taken to be 2, so that nothing is decided by what "
            "only these sizes do. Give an example of another size; if the program needs this one, leave the axis out "
            "of dynamic_axes."
        )
    return CaptureError(
        f"the program failed while it was recorded{where}: {type(error).__name__}: {error}\n"
        "Call it with the same arguments without exporting: if it fails there too, mend it there first. "
        "If not, it did something that a recording over fake tensors cannot follow (numpy, .data_ptr(), a C extension)."
    )


def _say_what_sizes_decided(symbols: HintedShapeEnv, axis_names: dict[str, str], strict: bool) -> None:
    """Warn, or refuse, where the program itself chose a way by a size that varies."""
    for assumption in symbols.assumptions.values():
        if assumption.by_user and not assumption.fixes():
            origin = assumption.origin
            text = (
                f"the program decides by a size that varies{origin.placed}: {assumption.spelled(axis_names)} is "
                f"{assumption.answer} in the example, and the exported model goes that way for every size. "
                "Decide by what does not vary, or export a model for each way"
            )
            if strict:
                raise FrozenValueError(text)
            warnings.warn_explicit(text, TracerWarning, origin.file, origin.line)


def _refuse_fixed_axes(symbols: HintedShapeEnv, axis_names: dict[str, str], automatic: frozenset[str]) -> None:
    fixed: dict[str, Assumption] = {}
    for assumption in symbols.fixing():
        for symbol in assumption.expression.free_symbols:
            fixed.setdefault(axis_names.get(str(symbol), str(symbol)), assumption)
    if not fixed:
        return
    if fixed.keys() & automatic:
        raise _FixedAutomatically(frozenset(fixed.keys() & automatic))
    lines = "\n".join(
        f"  - {name!r}{known.origin.placed}: the program needs {known.spelled(axis_names)} to be {known.answer}"
        for name, known in fixed.items()
    )
    raise DynamicAxisError(
        f"{len(fixed)} dynamic ax{'es are' if len(fixed) > 1 else 'is is'} fixed by the program:\n{lines}\n"
        "Write those lines for any size (x.shape[i] instead of a number), or leave the axes out of dynamic_axes."
    )
