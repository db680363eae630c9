"""`capture_program`: reads and checks the arguments of the caller, and records the program once, for all opsets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from onnx_parity.exporter.captured_program import Capture
from onnx_parity.exporter.containers import leaves_of
from onnx_parity.exporter.errors import ArgumentError, CaptureError, DroppedWriteWarning, ProgramFailedError
from onnx_parity.exporter.graph.graph import operator_name
from onnx_parity.exporter.lowering.custom.symbolic import TranslationTable, kept_for_users, translations
from onnx_parity.exporter.lowering.lower import Names
from onnx_parity.exporter.nesting import refusing_deep_nesting
from onnx_parity.exporter.patches.exporting_flag import exporting
from onnx_parity.exporter.program_state.weight_names import named_weights, weights_of
from onnx_parity.exporter.progress import progress
from onnx_parity.exporter.recording.fakes.fake_mode import outside_of_fake_modes
from onnx_parity.exporter.registry.lowerings import Lowering, is_lowered
from onnx_parity.exporter.registry.recorded import function_for
from onnx_parity.exporter.registry.rules import Aspect, load
from onnx_parity.exporter.request.call_arguments import (
    Call,
    checked_program,
    in_signature_order,
    own_example,
    refuse_file_as_example,
    refuse_unscripted,
    signature_of,
)
from onnx_parity.exporter.request.dynamic_axes import Axes, DynamicAxes, with_outputs_placed
from onnx_parity.exporter.request.dynamic_shapes import (
    DynamicShapes,
    shapes_by_argument,
    with_shapes_of_rest,
    written_out,
)
from onnx_parity.exporter.request.keywords import suggesting_keywords
from onnx_parity.exporter.request.marked_inputs import Held, Layout, Mark, is_input, wrapped_by_name, wrapped_by_shape
from onnx_parity.exporter.request.names import checked_names, input_names_for, output_names_for
from onnx_parity.exporter.request.record_options import RecordOptions
from onnx_parity.exporter.request.requested_axes import axes_of_program
from onnx_parity.exporter.request.size_expressions import with_axis_sizes
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.sources.exported_program import ExportedModule
from onnx_parity.exporter.torch_inside.dispatcher import (
    OpOverload,
    can_be_decomposed,
    core_decompositions,
    in_operators_of_aten,
    kernel_of_any_device,
)
from onnx_parity.exporter.torch_inside.frames import warn_at_users_line
from onnx_parity.exporter.torch_inside.garbage import leaving_garbage
from onnx_parity.exporter.torch_inside.this_thread import records_here
from onnx_parity.exporter.torch_onnx.legacy_arguments import set_training, trains
from onnx_parity.exporter.tracing.capture_errors import OperatorFailedError, failed_with
from onnx_parity.exporter.tracing.to_record import ToRecord
from onnx_parity.exporter.tracing.trace import Traced, trace
from onnx_parity.exporter.transformer_ops import torchs_attention

__all__ = ["Program", "capture_program", "record_program"]

Program = Callable[..., Any] | torch.export.ExportedProgram


@suggesting_keywords
def capture_program(
    model: Program,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: DynamicAxes | None = None,
    dynamic_shapes: DynamicShapes | None = None,
    custom_translation_table: TranslationTable | None = None,
    training: object = False,
    strict: bool = False,
    assume: Sequence[str] = (),
    return_written: bool = False,
    allow_ignored_inputs: bool = False,
    _retain_param_name: bool = True,
) -> Capture:
    """Record the operators that `model(*args, **kwargs)` calls, without computing them."""
    options = RecordOptions(
        input_names=input_names,
        output_names=output_names,
        dynamic_axes=dynamic_axes,
        dynamic_shapes=dynamic_shapes,
        custom_translation_table=custom_translation_table,
        training=training,
        strict=strict,
        assume=assume,
        return_written=return_written,
        allow_ignored_inputs=allow_ignored_inputs,
        retain_param_name=_retain_param_name,
    )
    with progress("recording the program"):
        return record_program(model, args, kwargs, options)


@refusing_deep_nesting
@leaving_garbage()
@outside_of_fake_modes
def record_program(model: Program, args: Any, kwargs: Mapping[str, Any] | None, options: RecordOptions) -> Capture:
    """Record a program. This is the implementation of `capture_program`."""
    if records_here():
        raise CaptureError(
            "the recorded program calls an export or a capture itself, which is not possible: export that program "
            "before or after this one, and not while it is recorded"
        )
    refuse_file_as_example(model, args)
    if isinstance(model, torch.export.ExportedProgram):
        model, args, kwargs = _callable(model, args, kwargs, options.training)
    checked_program(model)
    args, kwargs, options = _with_own_example(model, args, kwargs, options)
    given = options.custom_translation_table
    table = translations({} if given is None else given)
    as_given = Call.of(model, args, kwargs)
    if options.dynamic_shapes is not None:
        signature = signature_of(model)
        shapes = written_out(options.dynamic_shapes, model, as_given.args, as_given.kwargs)
        shapes = with_shapes_of_rest(shapes, signature, as_given.args)
        # By position, the entries are in the order of the signature, whatever that of the keyword arguments.
        shapes = shapes_by_argument(shapes, in_signature_order(signature, as_given.by_parameter))
        options = replace(options, dynamic_shapes=shapes)
    inputs = _Inputs.read(model, as_given, options)
    with set_training(model, options.training), exporting(), kept_for_users(table):
        try:
            traced = _traced(model, inputs, options, table)
        except ProgramFailedError as error:
            raise failed_with(error, as_given, signature_of(model)) from error.__cause__
    _warn_of_dropped_writes(traced.written)
    written = [end.name for end in traced.returned.written]
    outputs = traced.graph.outputs
    example = inputs.call if inputs.layout is None else as_given
    count, in_object = len(outputs) - len(written), traced.returned.names
    output_names = output_names_for(count, inputs.output_names, written, inputs.names, in_object)
    axes = with_outputs_placed(traced.axes, output_names, [len(output.shape) for output in outputs])
    weight_names = inputs.weight_names
    training = None if options.training is None else trains(options.training)
    source = Source(
        model, example.args, example.kwargs, training, axes, inputs.layout, traced.graph, traced.looked_at,
        traced.conditions,
    )  # fmt: skip
    return Capture(
        traced,
        replace(source, written=frozenset([*written, *traced.written])),
        Names(inputs.names, output_names, axes.outputs),
        lambda: named_weights(model, weight_names),
        table,
    )


def _callable(
    program: torch.export.ExportedProgram, args: Any, kwargs: Mapping[str, Any] | None, training: object
) -> tuple[ExportedModule, Any, Mapping[str, Any] | None]:
    """An exported program as a module, with the arguments that it was exported with if none are given."""
    if trains(training):
        raise ArgumentError(
            "training=True, but model is an ExportedProgram, whose mode was fixed when it was made: put the module "
            "into training mode before torch.export.export"
        )
    module = ExportedModule(program)
    if _left_out(args, kwargs):
        args, kwargs = module.example()
        # The last dict of `args` is taken for keyword arguments. An empty one after it keeps it positional.
        args = args if kwargs else (*args, {})
    return module, args, kwargs


def _with_own_example(
    model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: RecordOptions
) -> tuple[Any, Mapping[str, Any] | None, RecordOptions]:
    """The arguments and options. If no arguments were given and the module has an example, those of the example."""
    own = own_example(model) if _left_out(args, kwargs) else None
    if own is None:
        return args, kwargs, options
    has_axes = options.dynamic_shapes is not None or options.dynamic_axes is not None
    options = replace(
        options,
        input_names=options.input_names or own.input_names,
        output_names=options.output_names or own.output_names,
        dynamic_shapes=options.dynamic_shapes if has_axes else own.dynamic_shapes,
    )
    return own.args, own.kwargs, options


def _left_out(args: Any, kwargs: Mapping[str, Any] | None) -> bool:
    """Whether no arguments were given. (`args == ()` would compare the elements if args is an array.)"""
    return isinstance(args, tuple) and not args and kwargs is None


class _Inputs(msgspec.Struct, frozen=True):
    """The call to record, with marked arguments wrapped, and the names of its inputs and of the weights."""

    call: Call
    names: list[str]
    weight_names: list[str]
    output_names: list[str]
    axes: Axes
    #: The positions of the inputs among the arguments, if some arguments are marked.
    layout: Layout | None

    @classmethod
    def read(cls, model: Callable[..., Any], call: Call, options: RecordOptions) -> _Inputs:
        requested = checked_names("input_names", options.input_names)
        output_names = checked_names("output_names", options.output_names)
        call = call.with_arguments(_marked(call.by_parameter, options, requested))
        names = input_names_for(call.by_parameter, requested, len(weights_of(model)) if requested else 0)
        leaves = [leaf for leaf in leaves_of((call.args, call.kwargs)) if is_input(leaf)]
        inputs = dict(zip(names, leaves, strict=True))
        layout = _layout(model, call) if any(isinstance(leaf, Held) for leaf in leaves) else None
        axes = axes_of_program(
            options.dynamic_axes,
            options.dynamic_shapes,
            call.by_parameter,
            inputs,
            output_names or ("output",),
            refuse_unknown=options.refuse_unknown_axes,
        )
        if isinstance(model, ExportedModule):
            axes = model.axes(inputs).renamed(axes, names)
        if layout is None:
            args, kwargs = with_axis_sizes((call.args, call.kwargs), axes)
            call = Call(args, kwargs, call.by_parameter)
        weight_names = requested[len(names) :]
        if not options.retain_param_name:
            count = range(len(weight_names), len(weights_of(model)))
            weight_names += [str(len(names) + number) for number in count]
        return cls(call, names, weight_names, output_names, axes, layout)


def _marked(arguments: dict[str, Any], options: RecordOptions, input_names: Sequence[str]) -> dict[str, Any]:
    """The arguments by parameter. Those that are marked, with `ListOf` for example, are wrapped."""
    dynamic_axes, dynamic_shapes = options.dynamic_axes, options.dynamic_shapes
    if dynamic_shapes is not None:
        spec = shapes_by_argument(dynamic_shapes, arguments)
        return {
            name: wrapped_by_shape(f"dynamic_shapes[{name!r}]", spec.get(name), argument)
            for name, argument in arguments.items()
        }
    if not isinstance(dynamic_axes, Mapping) or not any(isinstance(wanted, Mark) for wanted in dynamic_axes.values()):
        return arguments
    return wrapped_by_name(dynamic_axes, arguments, input_names)


def _layout(model: Callable[..., Any], call: Call) -> Layout:
    layout = Layout.of((call.args, call.kwargs))
    if isinstance(model, ExportedModule):
        model.refuse_marked_inputs()
    refuse_unscripted(model, layout)
    return layout


def _traced(
    model: Callable[..., Any], inputs: _Inputs, options: RecordOptions, table: Mapping[OpOverload, Lowering]
) -> Traced:
    wanted = ToRecord(
        model,
        inputs.call.args,
        inputs.call.kwargs,
        inputs.names,
        inputs.weight_names,
        lambda op: None if op in table else _decomposition_of(op),
        options,
    )
    try:
        return trace(wanted, inputs.axes)
    except OperatorFailedError as error:
        if error.op in table or is_lowered(error.op) or _decomposition_of(error.op) is not None:
            raise
        # That torch cannot describe its result is of no interest then.
        name = operator_name(error.op)
        raise CaptureError(
            f"{name} cannot be exported{error.placed}: there is no lowering for it\n"
            f"Register a lowering with @onnx_parity.lowering('{name}'), or write that line with other operators."
        ) from error


def _warn_of_dropped_writes(written: Sequence[str]) -> None:
    if not written:
        return
    named = ", ".join(written) if len(written) <= 8 else f"{', '.join(written[:6])} and {len(written) - 6} others"
    text = (
        f"the program writes to {named}. An ONNX model keeps no state from one run to the next: "
        "the new values are left out. If they matter, return them from the program, or give return_written=True"
    )
    warn_at_users_line(text, DroppedWriteWarning)


def _decomposition_of(op: OpOverload) -> Callable[..., Any] | None:
    """torch's decomposition of an operator into simpler ones; None for an operator that has a lowering."""
    if is_lowered(op):
        return None
    if op is torch.ops.aten.size.default:
        # Only TorchScript has this operator: torch cannot say of it whether it is composite.
        return None
    if operator_name(op) == "onnx::Attention":
        return torchs_attention
    if op.namespace == "quantized_decomposed" or operator_name(op).startswith("aten::_foreach_"):
        # Their kernels for all devices call other operators: for each tensor of a list, the operator on tensors.
        return kernel_of_any_device(op)
    if op.namespace == "prims":
        return in_operators_of_aten(op)
    load(Aspect.DECOMPOSITION, op.name())
    known = _decomposition(op)
    # A composite operator that is called by one of torch's decompositions has not been decomposed yet.
    return op.decompose if known is None and can_be_decomposed(op) else known


@cache
def _decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """A decomposition of ours, or torch's own, also for calls that ours does not handle."""
    torchs, ours = _torchs_decompositions().get(op), function_for(Aspect.DECOMPOSITION, op.name())
    if ours is None or torchs is None:
        return ours or torchs

    @functools.wraps(ours)
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        result = ours(*args, **kwargs)
        return torchs(*args, **kwargs) if result is NotImplemented else result

    return decomposed


_torchs_decompositions = cache(core_decompositions)
