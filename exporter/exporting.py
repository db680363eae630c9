"""`export`: record a program, lower it to an opset, verify the model and write it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, BinaryIO

import torch

from onnx_parity.exporter.captured_program import ModelOptions
from onnx_parity.exporter.capturing import Program, RecordOptions, record_program
from onnx_parity.exporter.export_report import Steps
from onnx_parity.exporter.files.external_data import ExternalData
from onnx_parity.exporter.lowering.custom.symbolic import TranslationTable
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.request.dynamic_axes import DynamicAxes
from onnx_parity.exporter.request.dynamic_shapes import DynamicShapes
from onnx_parity.exporter.request.opsets import checked_custom_opsets, checked_opset
from onnx_parity.exporter.torch_onnx.legacy_arguments import (
    check_example_outputs,
    check_switches,
    export_type_of,
    refuse_uninlined,
)

__all__ = ["export"]


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
            order of `model.state_dict()`. One that is there under several names is one input, under the first of them:
            `weight_names` says which there are.
        verbose: Print the exported graph.
        training: Export the module as it is in training mode rather than in evaluation mode: True, or a `TrainingMode`
            of ours or of `torch.onnx`. Either way it is left in the mode it was in.
        input_names: Names for the inputs, from the first; fewer than there are will do. More go to the weights.
        output_names: Names for the outputs, likewise.
        aten: The older spelling of `operator_export_type=OperatorExportTypes.ONNX_ATEN`.
        export_raw_ir: The older spelling of `operator_export_type=OperatorExportTypes.RAW`.
        operator_export_type: In whose operators to write: see `OperatorExportTypes`.
        opset_version: The opset to deliver, 7 to 28; 18 if not given. Never another one.
        do_constant_folding: Compute what depends on weights alone, and fold batch norms into convolutions. Never done
            where the weights are inputs.
        example_outputs: What the program returns. It is found out anyway; if given, it must agree.
        strip_doc_string: False writes each node's operator, source line and module into its `doc_string`.
        dynamic_axes: The dynamic axes, by the names of inputs: `{"x": [0, 2]}`, `{"x": {0: "batch"}}`, or both. An
            output's entry names the axes of that output. A `ListOf` in the place of a list of tensors, or an `OrNone`
            in that of a tensor, makes it one input: a sequence of any length, an optional. Without, a list is as many
            inputs as the example has tensors. See there.
        keep_initializers_as_inputs: List the weights among the inputs too, so that whoever runs the model may override
            them. Opsets 7 and 8 demand the listing; there it alone does not keep weights from being folded.
        kwargs: Keyword arguments to call it with.
        external_data: Write the weights to `<f>.data`. By default only where one file cannot hold them. An
            `ExternalData` asks for shards, or refers to weights that lie in safetensors files.
        dynamic_shapes: The dynamic axes, as `torch.export` takes them: `{"x": {0: torch.export.Dim("batch")}}`; with
            `ListOf` and `OrNone` at any depth.
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
    check_switches(
        verbose=verbose is not None and verbose,
        do_constant_folding=do_constant_folding,
        optimize=optimize,
        verify=verify,
        report=report,
        profile=profile,
        dump_exported_program=dump_exported_program,
        autograd_inlining=autograd_inlining,
    )
    refuse_uninlined(autograd_inlining)
    model_options = ModelOptions(
        opset_version=checked_opset(opset_version),
        operator_export_type=export_type_of(operator_export_type, aten, export_raw_ir),
        export_params=export_params,
        do_constant_folding=do_constant_folding and optimize,
        strip_doc_string=strip_doc_string,
        keep_initializers_as_inputs=keep_initializers_as_inputs is not None and keep_initializers_as_inputs,
        custom_opsets=checked_custom_opsets(custom_opsets),
        export_modules_as_functions=export_modules_as_functions,
    )
    record_options = RecordOptions(
        input_names=input_names,
        output_names=output_names,
        dynamic_axes=dynamic_axes,
        dynamic_shapes=dynamic_shapes,
        custom_translation_table=custom_translation_table,
        training=training,
        strict=strict,
        return_written=return_written,
        retain_param_name=_retain_param_name,
    )
    with Steps(artifacts_dir, report=report, profile=profile, dump=dump_exported_program) as steps:
        with steps.step("record"):
            capture = record_program(model, args, kwargs, record_options)
        steps.captured(capture.graph, capture.operators)
        if example_outputs is not None:
            check_example_outputs(example_outputs, capture.graph.outputs)
        with steps.step("lower"):
            program = capture.as_model(model_options)
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
