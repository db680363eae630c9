"""`export` and its two halves: `capture_program`, which is done once, and `Capture.lower`, once an opset."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, BinaryIO

import torch
from torch._decomp import _core_aten_decompositions_post_autograd
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from exporter.arguments import (
    by_parameter,
    checked_opset,
    checked_program,
    input_names_for,
    output_names_for,
    own_example,
    parameter_names,
    refuse_unknown_keywords,
    refuse_unreadable,
    refuse_unused_opsets,
    signature_of,
    split_args,
)
from exporter.axes import DynamicAxes, DynamicShapes, axes_of_program
from exporter.capture.activity import exporting
from exporter.capture.copies import COPIES
from exporter.capture.exported import ExportedModule
from exporter.capture.fakes import outside_of_fake_modes
from exporter.capture.graph import Graph, operator_name
from exporter.capture.origin import nearest_user_place
from exporter.capture.strided import STRIDED
from exporter.capture.trace import Traced, named_weights, trace, weights_of
from exporter.errors import ArgumentError
from exporter.legacy import check_example_outputs, export_type_of, refuse_uninlined, set_training, trains
from exporter.lowering import families  # noqa: F401  (registers the lowerings)
from exporter.lowering.emission import Emission, OperatorExportTypes
from exporter.lowering.lower import Names, lower
from exporter.lowering.registry import Lowering, is_lowered
from exporter.lowering.symbolic import TranslationTable, kept_for_users, translations
from exporter.passes.fold import fold_constants
from exporter.passes.fuse import fuse_batch_norm
from exporter.passes.modules import modules_to_functions
from exporter.passes.prune import list_initializers_as_inputs, remove_unused
from exporter.passes.weights import turn_weights_into_inputs
from exporter.placement import ExternalData
from exporter.program import ONNXProgram, Source
from exporter.steps import Steps
from exporter.weights import Weights

__all__ = ["Capture", "DroppedWriteWarning", "capture_program", "export"]

Program = Callable[..., Any] | torch.export.ExportedProgram


class DroppedWriteWarning(UserWarning):
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
        weights_vary = not export_params or bool(keep_initializers_as_inputs)
        emission = Emission(
            style=operator_export_type,
            opset_versions=custom_opsets or {},
            table=self._table,
            doc_strings=not strip_doc_string,
            weights_vary=weights_vary,
        )
        lowered = lower(
            self.graph, opset, Names(self._input_names, self._output_names, self._source.axes.outputs), emission
        )
        model = lowered.model
        refuse_unused_opsets(custom_opsets or {}, model.graph.opset_imports)
        if export_modules_as_functions:
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
    own = own_example(model) if args == () and kwargs is None else None
    if own is not None:
        args, kwargs = own.args, own.kwargs
        input_names, output_names = input_names or own.input_names, output_names or own.output_names
        dynamic_shapes = own.dynamic_shapes if dynamic_shapes is None and not dynamic_axes else dynamic_shapes
    table = translations(custom_translation_table or {})
    positional, named = split_args(args, kwargs)
    signature = signature_of(model)
    refuse_unknown_keywords(args, named, signature)
    arguments = by_parameter(parameter_names(signature), positional, named)
    refuse_unreadable(arguments)
    names = input_names_for(arguments, input_names, len(weights_of(model)) if input_names else 0)
    tensors = [leaf for leaf in pytree.tree_leaves((positional, named)) if isinstance(leaf, torch.Tensor)]
    inputs = dict(zip(names, tensors, strict=True))
    axes = axes_of_program(dynamic_axes, dynamic_shapes, arguments, inputs, output_names or ("output",))
    if isinstance(model, ExportedModule):
        axes = model.axes(inputs).renamed(axes, names)
    weight_names = list((input_names or ())[len(names) :])
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
    return Capture(
        traced,
        Source(model, positional, named, None if training is None else trains(training), axes),
        names,
        output_names_for(len(traced.graph.outputs) - len(written), output_names, written),
        lambda: named_weights(model, weight_names),
        table,
    )


def export(
    model: Program,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    export_params: bool = True,
    verbose: bool | None = None,
    training: object = False,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    aten: bool = False,
    export_raw_ir: bool = False,
    operator_export_type: object = None,
    opset_version: int | None = None,
    _retain_param_name: bool = True,
    do_constant_folding: bool = True,
    example_outputs: Any = None,
    strip_doc_string: bool = True,
    dynamic_axes: DynamicAxes | None = None,
    keep_initializers_as_inputs: bool | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    external_data: bool | ExternalData | None = None,
    dynamic_shapes: DynamicShapes | None = None,
    custom_translation_table: TranslationTable | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False,
    optimize: bool = True,
    verify: bool = False,
    report: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    dynamo: bool | None = None,
    autograd_inlining: bool = True,
    strict: bool = False,
    return_written: bool = False,
) -> ONNXProgram:
    """Export a PyTorch program to ONNX.

    The program is recorded once, over tensors without data; its parameters become the model's weights.

    Args:
        model: A `torch.nn.Module`, any function of tensors, or an `ExportedProgram` of `torch.export`, whose dynamic
            shapes are the model's.
        args: The arguments to call it with, a tuple or one tensor. Tensors become inputs; everything else is built in.
            A dict at the end of the tuple holds keyword arguments. An `ExportedProgram` knows its own.
        f: Where to write the model: a path, or a file opened for writing bytes. None writes nothing.
        export_params: False leaves the weights out: they become inputs after the program's own, all of them, in the
            order of `model.state_dict().values()`.
        verbose: Print the exported graph.
        training: Export the module as it is in training mode rather than in evaluation mode: True, or a `TrainingMode`
            of ours or of `torch.onnx`. Either way it is left in the mode it was in.
        input_names: Names for the inputs, from the first; fewer than there are will do. More go to the weights.
        output_names: Names for the outputs, likewise.
        aten: `operator_export_type=OperatorExportTypes.ONNX_ATEN`, as it was said once.
        export_raw_ir: `operator_export_type=OperatorExportTypes.RAW`, likewise.
        operator_export_type: In whose operators to write: see `OperatorExportTypes`.
        opset_version: The opset to deliver, 7 to 28; 18 if not given. Never another one.
        do_constant_folding: Compute what depends on weights alone, and fold batch norms into convolutions. Never done
            where the weights are inputs.
        example_outputs: What the program returns. It is found out anyway; if given, it must agree.
        strip_doc_string: False writes each node's operator, source line and module into its `doc_string`.
        dynamic_axes: Sizes that may vary, by the names of inputs: `{"x": [0, 2]}`, `{"x": {0: "batch"}}`, or both. An
            output's entry names the axes of that output.
        keep_initializers_as_inputs: List the weights among the inputs too, so that whoever runs the model may override
            them. Opsets 7 and 8 demand the listing; there it alone does not keep weights from being folded.
        kwargs: Keyword arguments to call it with.
        external_data: Write the weights to `<f>.data`. By default only where one file cannot hold them. An
            `ExternalData` asks for shards, or refers to weights that lie in safetensors files.
        dynamic_shapes: Sizes that may vary, as `torch.export` takes them: `{"x": {0: torch.export.Dim("batch")}}`.
        custom_translation_table: Lowerings for this export alone: `{torch.ops.my_ops.foo.default: lower_foo}`.
        custom_opsets: Versions of domains of your own: `{"my_domain": 2}`; 1 for those not named.
        export_modules_as_functions: Write modules as functions of the model: True for all, or their classes.
        optimize: False is the same as `do_constant_folding=False`.
        verify: Raise `VerificationError`, and write nothing, unless the model gives what the program gives: see
            `ONNXProgram.verify`.
        report: Write `onnx_export_report.md` into `artifacts_dir`, also where the export fails.
        profile: Write the seconds of each step into that report.
        dump_exported_program: Write the recorded program, `onnx_export_program.txt`, into `artifacts_dir`.
        artifacts_dir: Where these go.
        dynamo: Accepted and ignored: there is one way to record a program.
        autograd_inlining: Must be True: an autograd function without `symbolic` is exported as its forward.
        strict: Refuse a program that turns a tensor into a Python value, rather than warn.
        return_written: Make outputs, after the program's own, of the new values of the buffers, attributes and inputs
            that it writes to; they are called `<name>_written`. Otherwise they are left out, with a warning.

    Returns:
        The exported program. Call it to run it in onnxruntime.
    """
    del dynamo
    opset = checked_opset(opset_version)
    style = export_type_of(operator_export_type, aten, export_raw_ir)
    refuse_uninlined(autograd_inlining)
    steps = Steps(artifacts_dir, report=report, profile=profile, dump=dump_exported_program)
    with steps:
        with steps.step("record"):
            capture = capture_program(
                model,
                args,
                kwargs,
                input_names=input_names,
                output_names=output_names,
                dynamic_axes=dynamic_axes,
                dynamic_shapes=dynamic_shapes,
                custom_translation_table=custom_translation_table,
                training=training,
                strict=strict,
                return_written=return_written,
                _retain_param_name=_retain_param_name,
            )
        steps.captured(capture.graph, capture.operators)
        if example_outputs is not None:
            check_example_outputs(example_outputs, capture.graph.outputs)
        with steps.step("lower"):
            program = capture.lower(
                opset,
                export_params=export_params,
                operator_export_type=style,
                do_constant_folding=do_constant_folding and optimize,
                strip_doc_string=strip_doc_string,
                keep_initializers_as_inputs=keep_initializers_as_inputs,
                custom_opsets=custom_opsets,
                export_modules_as_functions=export_modules_as_functions,
            )
        steps.exported(program)
        if verbose:
            print(program)
        if verify:
            with steps.step("verify"):
                program.verify()
        if f is not None:
            with steps.step("write"):
                program.save(f, external_data=external_data)
    return program


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
    if args == () and kwargs is None:
        args, kwargs = module.example()
        # An empty dict, so that another one before it stays an argument.
        args = args if kwargs else (*args, {})
    return module, args, kwargs


def _decomposition_of(op: OpOverload) -> Callable[..., Any] | None:
    """How torch writes an operator in simpler ones, for operators that have no lowering."""
    if is_lowered(op):
        return None
    known = _decompositions().get(op)
    # A composite that a decomposition of torch's calls comes here whole.
    return op.decompose if known is None and op._can_decompose() else known


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    return {**_core_aten_decompositions_post_autograd(), **STRIDED, **COPIES}
