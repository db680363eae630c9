"""`export`: records a program, lowers it to an opset, verifies the model and writes it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import torch

from onnx_parity.exporter.captured_program import ModelOptions, as_model
from onnx_parity.exporter.capturing import Program, record_program
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.export_report import Steps
from onnx_parity.exporter.files.external_data import ExternalData
from onnx_parity.exporter.files.write import checked_target
from onnx_parity.exporter.lowering.custom.symbolic import TranslationTable
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.request.checks import check_switches
from onnx_parity.exporter.request.dynamic_axes import DynamicAxes
from onnx_parity.exporter.request.dynamic_shapes import DynamicShapes
from onnx_parity.exporter.request.keywords import suggesting_keywords
from onnx_parity.exporter.request.opsets import (
    checked_custom_opsets,
    checked_opset,
    checked_runtime,
    checked_weight_bits,
)
from onnx_parity.exporter.request.record_options import RecordOptions
from onnx_parity.exporter.torch_inside.garbage import leaving_garbage
from onnx_parity.exporter.torch_onnx.legacy_arguments import (
    check_example_outputs,
    export_type_of,
    refuse_uninlined,
)

__all__ = ["export"]


@suggesting_keywords
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
    assume: Sequence[str] = (),
    assumptions_output: bool = False,
    return_written: bool = False,
    allow_ignored_inputs: bool = False,
    target: str | None = None,
    weight_bits: int | None = None,
) -> ONNXProgram:
    """Export a PyTorch program to ONNX.

    The program is recorded once, over tensors without data; its parameters become the model's weights.

    Args:
        model: A `torch.nn.Module`, any function of tensors, or an `ExportedProgram` of `torch.export`. The dynamic
            shapes of an `ExportedProgram` are those of the model.
        args: The arguments to call it with, a tuple or one tensor. Tensors become inputs; other values become constants
            of the model. A dict at the end of the tuple holds keyword arguments. For an `ExportedProgram`, the default
            is the arguments that it was exported with.
        f: Where to write the model: a path, or a file opened for writing bytes. None writes nothing.
        export_params: False leaves the weights out: all of them become inputs after the program's own, in the order of
            `model.state_dict()`. A tensor that has several names there is one input, under the first of them. The
            `weight_names` of the result lists these inputs.
        verbose: Print the exported graph.
        training: Export the module in training mode rather than in evaluation mode: True, or a `TrainingMode` of this
            package or of `torch.onnx`. The module's own mode is restored afterwards.
        input_names: Names of the inputs, beginning with the first. There may be fewer names than inputs; further names
            are those of the weights.
        output_names: Names of the outputs, beginning with the first. There may be fewer names than outputs.
        aten: The older spelling of `operator_export_type=OperatorExportTypes.ONNX_ATEN`.
        export_raw_ir: The older spelling of `operator_export_type=OperatorExportTypes.RAW`.
        operator_export_type: Which operators the model consists of: see `OperatorExportTypes`.
        opset_version: The opset of the model, 7 to 28; 18 if not given. Another opset is never substituted.
        do_constant_folding: Compute what depends on weights or literals alone, and fold batch norms into other layers.
            If the weights are inputs, only what depends on literals. False leaves out all that `optimize=False` does.
        example_outputs: The results of the program. They are not needed; if given, their number, dtypes and shapes must
            be those of the program's results.
        strip_doc_string: False writes each node's operator, source line and module into its `doc_string`, and into its
            metadata under the keys of `torch.onnx.export(dynamo=True)`: `pkg.torch.onnx.name_scopes` and others.
        dynamic_axes: The dynamic axes, by the names of inputs: `{"x": [0, 2]}`, `{"x": {0: "batch"}}`, or both. An
            entry for an output names the axes of that output. An entry `ListOf` for a list of tensors makes the list
            one input, a sequence of any length; without it, each tensor of the list is an input. An entry `OrNone` for
            a tensor makes it an optional, and an entry `AnyNumber` for a number makes it an input.
        keep_initializers_as_inputs: Also list the weights among the inputs, so that other values can be passed when the
            model runs; then no weight is folded. In opsets 7 and 8 weights are always listed, and are folded unless
            this is True.
        kwargs: Keyword arguments to call it with.
        external_data: Write the weights to `<f>.data`. The default is to do so only if one file cannot hold them. Give
            an `ExternalData` for shards, or to refer to weights that are stored in safetensors files.
        dynamic_shapes: The dynamic axes, in the form of `torch.export`: `{"x": {0: torch.export.Dim("batch")}}`;
            `ListOf`, `OrNone` and `AnyNumber` may be used at any depth.
        custom_translation_table: Lowerings for this export alone: `{torch.ops.my_ops.foo.default: lower_foo}`.
        custom_opsets: Versions of custom domains: `{"my_domain": 2}`; the default is 1.
        export_modules_as_functions: Write modules as functions of the model: True for all, or their classes.
        optimize: False leaves out what `ONNXProgram.optimize` can do later: fusions, and all else that depends on how
            operators follow each other, or on weights.
        verify: Raise `VerificationError`, and write nothing, if the model's results differ from the program's: see
            `ONNXProgram.verify`.
        report: Write `onnx_export_report.md` into `artifacts_dir`, even if the export fails.
        profile: Write the seconds of each step into that report.
        dump_exported_program: Write the recorded program, `onnx_export_program.txt`, into `artifacts_dir`.
        artifacts_dir: The folder for these files.
        dynamo: Accepted and ignored: this exporter has only one way to record a program.
        autograd_inlining: Must be True: an autograd function without `symbolic` is exported as its forward.
        strict: Raise an error, rather than a warning, for every assumption that `assume` does not state: if the program
            turns a tensor into a Python value, or branches on a dynamic size. See `ONNXProgram.assumptions`.
        assume: Conditions that hold for all that the model will be given, over the names of dynamic axes or as warnings
            spell them: `["height % 8 == 0", "batch > 1"]`. They become assumptions without a warning or an error.
        assumptions_output: Give the model one more output, the boolean `assumptions_hold`: whether all its assumptions
            hold for its inputs. Runtimes that do not check them can ask it. It comes after the program's outputs.
        return_written: Return the new values of the buffers, attributes and inputs that the program writes to. They
            become outputs named `<name>_written` after the program's own. Otherwise they are left out, with a warning.
        allow_ignored_inputs: Export a program that looks at the values of an input only to decide what to do, or that
            changes a plain number in an object which it is given and gives back. The model ignores this input or
            number, and does what was decided for the example. Otherwise that is an error.
        target: `"onnxruntime"` lets the model have operators that only onnxruntime has, where they are faster. If the
            program is a language model with a cache, `genai_config.json` is written beside it, with which
            onnxruntime-genai runs it, and the weights are written to `<f>.data`, which onnxruntime loads faster. The
            default, None, is a model of ONNX's operators alone, which any runtime runs.
        weight_bits: 4 or 8: store the weights of products of matrices as integers of so many bits, with a scale for
            each block of 32 features, from opset 21 on. They are made one by one when the model is written, and read
            then from the safetensors files of an `ExternalData`, to which the model does not refer.

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
    opset = checked_opset(opset_version)
    model_options = ModelOptions(
        opset_version=opset,
        operator_export_type=export_type_of(operator_export_type, aten, export_raw_ir),
        export_params=export_params,
        do_constant_folding=do_constant_folding,
        optimize=optimize,
        strip_doc_string=strip_doc_string,
        keep_initializers_as_inputs=keep_initializers_as_inputs is not None and keep_initializers_as_inputs,
        custom_opsets=checked_custom_opsets(custom_opsets),
        export_modules_as_functions=export_modules_as_functions,
        assumptions_output=assumptions_output,
        refers_to_files=isinstance(external_data, ExternalData) and bool(external_data.safetensors),
        target=checked_runtime(target),
        weight_bits=checked_weight_bits(weight_bits, opset, verify),
        checkpoint=external_data.safetensors if weight_bits and isinstance(external_data, ExternalData) else (),
    )
    if weight_bits is not None and isinstance(external_data, ExternalData):
        external_data = dataclasses.replace(external_data, safetensors=())
    record_options = RecordOptions(
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
        same_shapes=opset < 11,
    )
    if isinstance(f, (tuple, list, dict, torch.Tensor)):
        is_swapped = isinstance(args, (str, os.PathLike))
        raise ArgumentError(
            f"args is {args!r} and f is of type {type(f).__name__}: give the arguments before the file"
            if is_swapped
            else f"f is of type {type(f).__name__}, and names the file: give all arguments of the program as one "
            "tuple, args=(x, y), and those by keyword as kwargs={'z': z}"
        )
    if isinstance(f, (str, os.PathLike)):
        checked_target(f)  # Before the work.
    # One pause of garbage collection, as each end of one is followed by a collection. A verification computes.
    paused = nullcontext() if verify else leaving_garbage()
    with paused, Steps(artifacts_dir, report=report, profile=profile, dump=dump_exported_program) as steps:
        with steps.step("record"):
            capture = record_program(model, args, kwargs, record_options)
        steps.captured(capture)
        if example_outputs is not None:
            check_example_outputs(example_outputs, capture.graph.outputs)
        with steps.step("lower"):
            program = as_model(capture, model_options)
        steps.exported(program)
        if verbose:
            print(program)
        if verify:
            with steps.step("verify"):
                program.verify()
        if f is not None:
            with steps.step("write"):
                if target is not None and isinstance(f, (str, os.PathLike)):
                    from onnx_parity.exporter.runtime.genai_config import write_genai_config

                    is_for_genai = write_genai_config(program.model, model, Path(f))
                    external_data = is_for_genai if external_data is None else external_data
                program.save(f, external_data=external_data)
    return program
