"""`Capture`: a recorded program, which can be lowered to several opsets. `ModelOptions`: how it is lowered."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
import torch

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.files.lazy_tensors import literals_on_the_cpu
from onnx_parity.exporter.files.safetensors_files import read_when_written
from onnx_parity.exporter.files.weights import Weights
from onnx_parity.exporter.graph.graph import Graph, operator_name
from onnx_parity.exporter.lowering.lower import Names, lower
from onnx_parity.exporter.lowering.options import LoweringOptions, OperatorExportTypes
from onnx_parity.exporter.nesting import refusing_deep_nesting
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.recording.fakes.fake_mode import outside_of_fake_modes
from onnx_parity.exporter.recording.known_values import KnownValues
from onnx_parity.exporter.registry.lowerings import Lowering
from onnx_parity.exporter.request.checks import check_switches
from onnx_parity.exporter.request.opsets import checked_custom_opsets, checked_opset, refuse_unused_opsets
from onnx_parity.exporter.rewrites.order import (
    MayCompute,
    optimize,
    rewrite_for_onnxruntime,
    use_few_bits,
    use_operators_of_onnxruntime,
)
from onnx_parity.exporter.rewrites.remove_unused import remove_unused
from onnx_parity.exporter.rewrites.unique_names import give_unique_names
from onnx_parity.exporter.rewrites.weights_as_inputs import list_initializers_as_inputs, turn_weights_into_inputs
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.garbage import leaving_garbage
from onnx_parity.exporter.torch_onnx.legacy_arguments import export_type_of
from onnx_parity.exporter.tracing.trace import Traced

__all__ = ["Capture", "ModelOptions", "as_model"]


class ModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a captured program is written as a model. `export` describes each of them."""

    opset_version: int
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX
    export_params: bool = True
    do_constant_folding: bool = True
    optimize: bool = True
    strip_doc_string: bool = True
    keep_initializers_as_inputs: bool = False
    custom_opsets: Mapping[str, int] = {}
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False
    #: Whether the model will refer to files that hold the weights. Then weights stay as they are stored there.
    refers_to_files: bool = False
    #: Whether the model has one more output, which tells whether its assumptions hold.
    assumptions_output: bool = False
    #: The runtime whose own operators the model may have; None for ONNX's alone.
    target: str | None = None
    #: How many bits the weights of products have; None for those that they have in the program.
    weight_bits: int | None = None
    #: Safetensors files from which weights on the meta device are read when the model is written.
    checkpoint: Sequence[str | os.PathLike[str]] = ()

    def __post_init__(self) -> None:
        check_switches(
            export_params=self.export_params,
            do_constant_folding=self.do_constant_folding,
            strip_doc_string=self.strip_doc_string,
            keep_initializers_as_inputs=self.keep_initializers_as_inputs,
            assumptions_output=self.assumptions_output,
        )
        if self.weight_bits is not None and (self.weights_vary or not (self.folds and self.optimize)):
            raise ArgumentError(
                "weight_bits stores the weights anew: it cannot be given with export_params=False, "
                "keep_initializers_as_inputs, export_modules_as_functions, optimize=False or do_constant_folding=False"
            )

    @property
    def weights_vary(self) -> bool:
        """Whether the caller may pass other weights when the model runs. Then no weight may be folded at export."""
        return not self.export_params or bool(self.keep_initializers_as_inputs)

    @property
    def as_functions(self) -> bool:
        """Whether modules become functions of the model."""
        # `bool` of a tensor raises an error of torch's; `modules_to_functions` refuses a tensor with its own message.
        asked = self.export_modules_as_functions
        return isinstance(asked, torch.Tensor) or bool(asked)

    @property
    def folds(self) -> bool:
        """Whether what does not depend on inputs is computed at the export."""
        return bool(self.do_constant_folding) and not self.as_functions

    @property
    def may_compute(self) -> MayCompute:
        """What rewrites may compute from weights, now or when the program is optimized later."""
        if self.weights_vary or self.as_functions:
            return MayCompute.NOTHING
        stays = self.refers_to_files or self.weight_bits is not None
        return MayCompute.FROM_SMALL_WEIGHTS if stays else MayCompute.FROM_ALL_WEIGHTS


class Capture:
    """A captured program. It does not depend on an opset, and can be lowered to any number of them."""

    def __init__(
        self,
        traced: Traced,
        source: Source,
        names: Names,
        weights: Callable[[], list[tuple[str, torch.Tensor]]],
        table: Mapping[OpOverload, Lowering],
    ) -> None:
        self.graph: Graph = traced.graph
        self._known = KnownValues(traced.graph)
        self.assumptions = tuple(traced.assumptions)
        self._returned = traced.returned
        self._source = source
        self._names = names
        self._weights = weights
        self._table = table

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the program's ATen operators, in branches and loops too, without repetition: `aten::elu`."""
        return tuple(dict.fromkeys(operator_name(node.op) for node in self.graph.all_live_nodes()))

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
        assumptions_output: bool = False,
    ) -> ONNXProgram:
        """Lower the program to an opset. Raises `UnsupportedOperatorsError`, which lists all operators that cannot be
        expressed at that opset.
        """
        return as_model(
            self,
            ModelOptions(
                opset_version=checked_opset(opset_version),
                operator_export_type=export_type_of(operator_export_type),
                export_params=export_params,
                do_constant_folding=do_constant_folding,
                strip_doc_string=strip_doc_string,
                keep_initializers_as_inputs=keep_initializers_as_inputs is not None and keep_initializers_as_inputs,
                custom_opsets=checked_custom_opsets(custom_opsets),
                export_modules_as_functions=export_modules_as_functions,
                assumptions_output=assumptions_output,
            ),
        )


@refusing_deep_nesting
@leaving_garbage()
@outside_of_fake_modes
def as_model(capture: Capture, options: ModelOptions) -> ONNXProgram:
    """Do what `Capture.lower` does, with options that have been checked."""
    opset = options.opset_version
    lowering = LoweringOptions(
        style=options.operator_export_type,
        opset_versions=options.custom_opsets,
        table=capture._table,
        weights_are_inputs=options.weights_vary,
        modules_become_functions=options.as_functions,
        known=capture._known if options.folds else None,
        reads_weights=options.folds and options.optimize and options.may_compute is MayCompute.FROM_ALL_WEIGHTS,
        conditions=capture.assumptions if options.assumptions_output else None,
    )
    with literals_on_the_cpu():
        lowered = lower(capture.graph, opset, capture._names, lowering)
        model = lowered.model
        refuse_unused_opsets(options.custom_opsets, model.graph.opset_imports)
        remove_unused(model)
        rewrite_for_onnxruntime(model, opset)
        if options.as_functions:
            from onnx_parity.exporter.rewrites.modules_as_functions import modules_to_functions

            modules_to_functions(model, capture._source.program, options.export_modules_as_functions, opset)
        elif options.folds and options.optimize:
            optimize(model, opset, options.may_compute)
            if options.weight_bits is not None:
                use_few_bits(model, opset, options.weight_bits, options.target is not None)
            if options.target is not None:
                use_operators_of_onnxruntime(model, opset, options.may_compute)
        give_unique_names(model)
        if not options.strip_doc_string:
            from onnx_parity.exporter.rewrites.origins import write_origins

            write_origins(model, capture._source.program)
        given = {} if options.export_params else turn_weights_into_inputs(model, capture._weights(), lowered.weights)
        if model.ir_version < 4 or options.keep_initializers_as_inputs:
            list_initializers_as_inputs(model)
    weights = Weights.of(lowered.weights, lowered.built_in, given)
    read_when_written(weights.sources, options.checkpoint)
    return ONNXProgram(
        model, capture._returned, opset, capture._source, weights, options.may_compute, capture.assumptions
    )
