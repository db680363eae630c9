"""A captured program: `capture_program`, which is done once, and `Capture.lower`, once an opset."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch._decomp import _core_aten_decompositions_post_autograd
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.fakes.fake_mode import outside_of_fake_modes
from onnx_parity.exporter.capture.graph.graph import Graph, operator_name
from onnx_parity.exporter.capture.graph.origin import nearest_user_place
from onnx_parity.exporter.capture.patches.exporting_flag import exporting
from onnx_parity.exporter.capture.replace.view_copies import COPIES
from onnx_parity.exporter.capture.replace.views import STRIDED
from onnx_parity.exporter.capture.sources.exported_program import ExportedModule
from onnx_parity.exporter.capture.trace import Traced, named_weights, trace, weights_of
from onnx_parity.exporter.errors import ArgumentError, OnnxExporterWarning
from onnx_parity.exporter.files.weights import Weights
from onnx_parity.exporter.lowering import families  # noqa: F401  (registers the lowerings)
from onnx_parity.exporter.lowering.custom.symbolic import TranslationTable, kept_for_users, translations
from onnx_parity.exporter.lowering.lower import Names, lower
from onnx_parity.exporter.lowering.options import LoweringOptions, OperatorExportTypes
from onnx_parity.exporter.lowering.registry import Lowering, is_lowered
from onnx_parity.exporter.passes.fold import fold_constants
from onnx_parity.exporter.passes.fuse_batch_norm import fuse_batch_norm
from onnx_parity.exporter.passes.modules_to_functions import modules_to_functions
from onnx_parity.exporter.passes.remove_unused import remove_unused
from onnx_parity.exporter.passes.weights_as_inputs import list_initializers_as_inputs, turn_weights_into_inputs
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.request.call_arguments import (
    by_parameter,
    checked_names,
    checked_opset,
    checked_program,
    input_names_for,
    output_names_for,
    own_example,
    parameter_names,
    refuse_unknown_keywords,
    refuse_unreadable,
    refuse_unscripted,
    refuse_unused_opsets,
    signature_of,
    split_args,
)
from onnx_parity.exporter.request.dynamic_axes import (
    DynamicAxes,
    DynamicShapes,
    axes_of_program,
    shapes_by_argument,
    with_outputs_placed,
)
from onnx_parity.exporter.request.marked_inputs import Held, Layout, Mark, held_by_name, held_by_shape, is_input
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.startup.gc_pause import leaving_garbage
from onnx_parity.exporter.torch_onnx.legacy_arguments import check_switches, export_type_of, set_training, trains
from onnx_parity.exporter.transformer_ops import torchs_attention

__all__ = ["Capture", "DroppedWriteWarning", "Program", "capture_program"]

Program = Callable[..., Any] | torch.export.ExportedProgram


class DroppedWriteWarning(OnnxExporterWarning):
    """The program writes to its buffers or inputs, and the exported model does not return the new values."""


class Capture:
    """A captured program: independent of any opset, to be lowered to as many as wanted."""

    def __init__(
        self,
        traced: Traced,
        source: Source,
        input_names: list[str],
        output_names: list[str],
        weights: Callable[[], list[tuple[str, torch.Tensor]]],
        table: Mapping[OpOverload, Lowering],
    ) -> None:
        self.graph: Graph = traced.graph
        self._traced = traced
        self._source = source
        self._input_names = input_names
        self._output_names = output_names
        self._weights = weights
        self._table = table

    @property
    def operators(self) -> tuple[str, ...]:
        """The ATen operators of the program, each once: `aten::elu`."""
        return tuple(dict.fromkeys(operator_name(node.op) for node in self.graph.live_nodes()))

    @leaving_garbage()
    @outside_of_fake_modes
    def lower(
        self,
        opset_version: int | None = None,
        *,
        export_params: bool = True,
        operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
        do_constant_folding: bool = True,
        strip_doc_string: bool = True,
        keep_initializers_as_inputs: bool | None = None,
        custom_opsets: Mapping[str, int] | None = None,
        export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False,
    ) -> ONNXProgram:
        """The ONNX program at an opset. Raises `UnsupportedOperatorsError` listing all that cannot be said there."""
        opset = checked_opset(opset_version)
        if custom_opsets is not None and not isinstance(custom_opsets, Mapping):
            raise ArgumentError(f"custom_opsets is {custom_opsets!r}: give a dict of versions, {{'my_domain': 2}}")
        check_switches(
            export_params=export_params,
            do_constant_folding=do_constant_folding,
            strip_doc_string=strip_doc_string,
            keep_initializers_as_inputs=keep_initializers_as_inputs is not None and keep_initializers_as_inputs,
        )
        weights_vary = not export_params or bool(keep_initializers_as_inputs)
        # A tensor, which is to be refused, has no truth.
        as_functions = isinstance(export_modules_as_functions, torch.Tensor) or bool(export_modules_as_functions)
        options = LoweringOptions(
            style=export_type_of(operator_export_type),
            opset_versions=custom_opsets or {},
            table=self._table,
            doc_strings=not strip_doc_string,
            weights_are_inputs=weights_vary,
            modules_become_functions=as_functions,
        )
        with _literals_on_the_cpu():
            lowered = lower(
                self.graph, opset, Names(self._input_names, self._output_names, self._source.axes.outputs), options
            )
            model = lowered.model
            refuse_unused_opsets(custom_opsets or {}, model.graph.opset_imports)
            if as_functions:
                modules_to_functions(model, self._source.program, export_modules_as_functions, opset)
            elif do_constant_folding and not weights_vary:
                fold_constants(model)
                fuse_batch_norm(model)
            remove_unused(model)
            given = {} if export_params else turn_weights_into_inputs(model, self._weights(), lowered.weights)
            if model.ir_version < 4 or keep_initializers_as_inputs:
                list_initializers_as_inputs(model)
        weights = Weights.of(lowered.weights, lowered.built_in, given)
        return ONNXProgram(model, self._traced.returned, opset, self._source, weights)


def _literals_on_the_cpu() -> AbstractContextManager[object]:
    """What lowerings make lies in the memory of the CPU, whatever torch.set_default_device says; which is a mode."""
    return torch.device("cpu") if torch._C._len_torch_function_stack() else nullcontext()


@leaving_garbage()
@outside_of_fake_modes
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
    return_written: bool = False,
    _retain_param_name: bool = True,
) -> Capture:
    """Record what `model(*args, **kwargs)` does, without computing it."""
    if isinstance(model, torch.export.ExportedProgram):
        model, args, kwargs = _callable(model, args, kwargs, training)
    checked_program(model)
    own = own_example(model) if _left_out(args, kwargs) else None
    if own is not None:
        args, kwargs = own.args, own.kwargs
        input_names, output_names = input_names or own.input_names, output_names or own.output_names
        dynamic_shapes = own.dynamic_shapes if dynamic_shapes is None and dynamic_axes is None else dynamic_shapes
    table = translations({} if custom_translation_table is None else custom_translation_table)
    positional, named = split_args(args, kwargs)
    signature = signature_of(model)
    refuse_unknown_keywords(args, named, signature)
    arguments = by_parameter(parameter_names(signature), positional, named)
    refuse_unreadable(arguments)
    requested = checked_names("input_names", input_names)
    output_names = checked_names("output_names", output_names)
    as_given = positional, named
    if dynamic_axes is not None or dynamic_shapes is not None:
        arguments = _held(arguments, dynamic_axes, dynamic_shapes, requested)
        values = list(arguments.values())
        positional, named = tuple(values[: len(positional)]), dict(zip(named, values[len(positional) :], strict=True))
    names = input_names_for(arguments, requested, len(weights_of(model)) if requested else 0)
    leaves = [leaf for leaf in pytree.tree_leaves((positional, named)) if is_input(leaf)]
    inputs = dict(zip(names, leaves, strict=True))
    layout = Layout.of((positional, named)) if any(isinstance(leaf, Held) for leaf in leaves) else None
    if layout is not None:
        if isinstance(model, ExportedModule):
            model.refuse_marked_inputs()
        refuse_unscripted(model, layout)
    axes = axes_of_program(dynamic_axes, dynamic_shapes, arguments, inputs, output_names or ("output",))
    if isinstance(model, ExportedModule):
        axes = model.axes(inputs).renamed(axes, names)
    weight_names = requested[len(names) :]
    if not _retain_param_name:
        weight_names += [str(len(names) + number) for number in range(len(weight_names), len(weights_of(model)))]
    with set_training(model, training), exporting(), kept_for_users(table):
        traced = trace(
            model,
            positional,
            named,
            input_names=names,
            weight_names=weight_names,
            axes=axes,
            decomposition_of=lambda op: None if op in table else _decomposition_of(op),
            strict=strict,
            return_written=return_written,
        )
    if traced.written:
        text = (
            f"the program writes to {', '.join(traced.written)}. An ONNX model keeps nothing from one run to the next: "
            "the new values are left out. If they matter, return them from the program, or give return_written=True"
        )
        caller = nearest_user_place(sys._getframe())
        file, line = (caller.file, caller.line) if caller is not None else ("<unknown>", 0)
        warnings.warn_explicit(text, DroppedWriteWarning, file, line)
    written = [end.name for end in traced.returned.written]
    outputs = traced.graph.outputs
    output_names = output_names_for(len(outputs) - len(written), output_names, written, names)
    axes = with_outputs_placed(axes, output_names, [len(output.shape) for output in outputs])
    return Capture(
        traced,
        Source(model, *as_given, None if training is None else trains(training), axes, layout, traced.graph),
        names,
        output_names,
        lambda: named_weights(model, weight_names),
        table,
    )


def _left_out(args: Any, kwargs: Mapping[str, Any] | None) -> bool:
    """Whether no arguments were given. (To compare an array with () is to compare its numbers.)"""
    return isinstance(args, tuple) and not args and kwargs is None


def _held(
    arguments: dict[str, Any],
    dynamic_axes: DynamicAxes | None,
    dynamic_shapes: DynamicShapes | None,
    input_names: Sequence[str],
) -> dict[str, Any]:
    """The arguments, those held that are marked as a list of any length or as a tensor that may be None."""
    if dynamic_shapes is not None:
        spec = shapes_by_argument(dynamic_shapes, arguments)
        return {
            name: held_by_shape(f"dynamic_shapes[{name!r}]", spec.get(name), argument)
            for name, argument in arguments.items()
        }
    if not isinstance(dynamic_axes, Mapping) or not any(isinstance(wanted, Mark) for wanted in dynamic_axes.values()):
        return arguments
    return held_by_name(dynamic_axes, arguments, input_names)


def _callable(
    program: torch.export.ExportedProgram, args: Any, kwargs: Mapping[str, Any] | None, training: object
) -> tuple[ExportedModule, Any, Mapping[str, Any] | None]:
    """An exported program as a module, with the arguments that it was exported with if none are given."""
    if trains(training):
        raise ArgumentError(
            "training=True, and model is an ExportedProgram, whose mode is built in: put the module into training mode "
            "before torch.export.export"
        )
    module = ExportedModule(program)
    if _left_out(args, kwargs):
        args, kwargs = module.example()
        # An empty dict, so that another one before it stays an argument.
        args = args if kwargs else (*args, {})
    return module, args, kwargs


def _decomposition_of(op: OpOverload) -> Callable[..., Any] | None:
    """How torch writes an operator in simpler ones, for operators that have no lowering."""
    if is_lowered(op):
        return None
    if operator_name(op) == "onnx::Attention":
        return torchs_attention
    known = _decompositions().get(op)
    # A composite that a decomposition of torch's calls comes here whole.
    return op.decompose if known is None and op._can_decompose() else known


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    return {**_core_aten_decompositions_post_autograd(), **STRIDED, **COPIES}
