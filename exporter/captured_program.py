"""`Capture`: a recorded program, which can be lowered to several opsets. `ModelOptions`: how it is lowered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
import torch

from onnx_parity.exporter.files.lazy_tensors import literals_on_the_cpu
from onnx_parity.exporter.files.weights import Weights
from onnx_parity.exporter.graph.graph import Graph, operator_name
from onnx_parity.exporter.lowering.lower import Names, lower
from onnx_parity.exporter.lowering.options import LoweringOptions, OperatorExportTypes
from onnx_parity.exporter.nesting import refusing_deep_nesting
from onnx_parity.exporter.passes.cancel_casts import cancel_casts
from onnx_parity.exporter.passes.fold import fold_constants
from onnx_parity.exporter.passes.fusions.add_constants_first import add_constants_first
from onnx_parity.exporter.passes.fusions.fuse_batch_norm import fuse_batch_norm
from onnx_parity.exporter.passes.fusions.fuse_norms import fuse_norms
from onnx_parity.exporter.passes.fusions.fuse_pads import fuse_pads
from onnx_parity.exporter.passes.fusions.fuse_rotary_embedding import fuse_rotary_embedding
from onnx_parity.exporter.passes.fusions.gather_repeats import gather_repeats
from onnx_parity.exporter.passes.fusions.keep_rows_apart import keep_rows_apart
from onnx_parity.exporter.passes.fusions.transform_by_products import transform_by_products
from onnx_parity.exporter.passes.merge_equal_nodes import merge_equal_nodes
from onnx_parity.exporter.passes.moves.merge_moves import merge_moves
from onnx_parity.exporter.passes.moves.move_transposes import move_transposes
from onnx_parity.exporter.passes.remove_unused import remove_unused
from onnx_parity.exporter.passes.separate_biases import OPSET_OF_QUANTIZATION, separate_biases
from onnx_parity.exporter.passes.simplify_arithmetic import simplify_arithmetic
from onnx_parity.exporter.passes.skip_expansions import skip_expansions
from onnx_parity.exporter.passes.skip_neutral import skip_neutral
from onnx_parity.exporter.passes.turn_vector_products import turn_vector_products
from onnx_parity.exporter.passes.unique_names import give_unique_names
from onnx_parity.exporter.passes.weights_as_inputs import list_initializers_as_inputs, turn_weights_into_inputs
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.recording.fakes.fake_mode import outside_of_fake_modes
from onnx_parity.exporter.recording.known_values import KnownValues
from onnx_parity.exporter.registry.lowerings import Lowering
from onnx_parity.exporter.request.opsets import checked_custom_opsets, checked_opset, refuse_unused_opsets
from onnx_parity.exporter.request.switches import check_switches
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
    strip_doc_string: bool = True
    keep_initializers_as_inputs: bool = False
    custom_opsets: Mapping[str, int] = {}
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False
    #: Whether the model will refer to files that hold the weights. Then weights stay as they are stored there.
    refers_to_files: bool = False

    def __post_init__(self) -> None:
        check_switches(
            export_params=self.export_params,
            do_constant_folding=self.do_constant_folding,
            strip_doc_string=self.strip_doc_string,
            keep_initializers_as_inputs=self.keep_initializers_as_inputs,
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
        doc_strings=not options.strip_doc_string,
        weights_are_inputs=options.weights_vary,
        modules_become_functions=options.as_functions,
        known=capture._known if options.folds else None,
    )
    with literals_on_the_cpu():
        lowered = lower(capture.graph, opset, capture._names, lowering)
        model = lowered.model
        refuse_unused_opsets(options.custom_opsets, model.graph.opset_imports)
        if opset == OPSET_OF_QUANTIZATION:
            separate_biases(model)
        turn_vector_products(model)
        if options.as_functions:
            from onnx_parity.exporter.passes.modules_to_functions import modules_to_functions

            modules_to_functions(model, capture._source.program, options.export_modules_as_functions, opset)
        elif options.folds and not options.weights_vary:
            # Before folding, which would make one constant of two equal halves of angles.
            fuse_rotary_embedding(model, opset, lowered.weights.values())
            skip_expansions(model, opset)
            # Before folding, which would store a result for each of several equal nodes.
            merge_equal_nodes(model)
            fuse_norms(model, opset)
            keep_rows_apart(model, keeps_weights=options.refers_to_files)
            fold_constants(model, keeps_weights=options.refers_to_files)
            fuse_pads(model)
            if not options.refers_to_files:
                add_constants_first(model)
                fuse_batch_norm(model)
            skip_neutral(model)
            cancel_casts(model)
            simplify_arithmetic(model, opset)
            gather_repeats(model)
            transform_by_products(model)
            merge_moves(model)
            if move_transposes(model):
                merge_moves(model)
        remove_unused(model)
        give_unique_names(model)
        given = {} if options.export_params else turn_weights_into_inputs(model, capture._weights(), lowered.weights)
        if model.ir_version < 4 or options.keep_initializers_as_inputs:
            list_initializers_as_inputs(model)
    weights = Weights.of(lowered.weights, lowered.built_in, given)
    return ONNXProgram(model, capture._returned, opset, capture._source, weights)
