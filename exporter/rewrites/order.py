"""The steps by which `export` and `ONNXProgram.optimize` rewrite a model, in order, with the reason for each place."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.rewriter import Rewrite, apply_rewrites, operators_of
from onnx_parity.exporter.rewrites.few_bits import few_bits
from onnx_parity.exporter.rewrites.fold_constants import fold_constants
from onnx_parity.exporter.rewrites.for_onnxruntime.operators import FOR_ONNXRUNTIME
from onnx_parity.exporter.rewrites.merge_equal_nodes import merge_equal_nodes
from onnx_parity.exporter.rewrites.precise_sigmoids import PRECISE_SIGMOIDS
from onnx_parity.exporter.rewrites.remove_unused import remove_unused
from onnx_parity.exporter.rewrites.scaled_products import SCALED_PRODUCTS
from onnx_parity.exporter.rewrites.tables.arithmetic import ARITHMETIC
from onnx_parity.exporter.rewrites.tables.batch_norm import BATCH_NORM
from onnx_parity.exporter.rewrites.tables.biases import BIASES
from onnx_parity.exporter.rewrites.tables.cache_writes import CACHE_WRITES
from onnx_parity.exporter.rewrites.tables.casts import CASTS
from onnx_parity.exporter.rewrites.tables.causal_convolutions import CAUSAL_CONVOLUTIONS
from onnx_parity.exporter.rewrites.tables.expansions import EXPANSIONS
from onnx_parity.exporter.rewrites.tables.fourier_transforms import FOURIER_TRANSFORMS
from onnx_parity.exporter.rewrites.tables.joins import JOINS
from onnx_parity.exporter.rewrites.tables.linear_layers import LINEAR_LAYERS
from onnx_parity.exporter.rewrites.tables.neutral_operands import NEUTRAL_OPERANDS
from onnx_parity.exporter.rewrites.tables.norms import LAYER_NORMS, RMS_NORMS
from onnx_parity.exporter.rewrites.tables.pads import PADS
from onnx_parity.exporter.rewrites.tables.repeats import REPEATS
from onnx_parity.exporter.rewrites.tables.reshapes import RESHAPES
from onnx_parity.exporter.rewrites.tables.rotary_embedding import ROTARY_EMBEDDING
from onnx_parity.exporter.rewrites.tables.sums_of_constants import SUMS_OF_CONSTANTS
from onnx_parity.exporter.rewrites.tables.transposes import ELEMENTWISE_TRANSPOSES, TRANSPOSES
from onnx_parity.exporter.rewrites.tables.vector_products import VECTOR_PRODUCTS

__all__ = [
    "ORDER", "REQUIRED", "MayCompute", "optimize", "rewrite_for_onnxruntime", "use_few_bits",
    "use_operators_of_onnxruntime",
]  # fmt: skip

Table = Sequence[Rewrite[Any]]


class MayCompute(enum.Enum):
    """What may be computed from weights when a model is made, rather than when it runs."""

    #: Nothing, because other weights may be passed when it runs, or because modules become functions.
    NOTHING = enum.auto()
    #: What depends on small weights. Large ones stay where they are stored.
    FROM_SMALL_WEIGHTS = enum.auto()
    FROM_ALL_WEIGHTS = enum.auto()


class Step(msgspec.Struct, frozen=True):
    """A table of rewrites, or what else is done to a model, told whether weights stay where they are stored."""

    does: Table | Callable[[ir.Model, bool], None]
    #: The reason for its place.
    because: str
    #: Whether it is only done if the step before it has changed the model.
    only_after_changes: bool = False


def _merge(model: ir.Model, _keeps_weights: bool) -> None:
    merge_equal_nodes(model)


def _fold(model: ir.Model, keeps_weights: bool) -> None:
    fold_constants(model, keeps_weights=keeps_weights)


def _remove_unused(model: ir.Model, _keeps_weights: bool) -> None:
    remove_unused(model)


_MOVES = (*TRANSPOSES, *RESHAPES, *JOINS)

#: What every model needs, and no option leaves out.
REQUIRED: Table = (*BIASES, *PRECISE_SIGMOIDS, *SCALED_PRODUCTS, *VECTOR_PRODUCTS)

ORDER = (
    Step(ROTARY_EMBEDDING, "before folding, which makes one constant of two equal halves of angles"),
    Step(EXPANSIONS, "before equal nodes are merged: nodes that differ by an expansion alone are equal then"),
    Step(_merge, "before folding, which would store a result for each of several equal nodes"),
    Step(LAYER_NORMS, "before root mean square norms, one of which is inside of each layer norm"),
    Step(
        (*RMS_NORMS, *LINEAR_LAYERS), "before folding, which transposes the weights of layers that have become MatMul"
    ),
    Step(_fold, "before all that needs constants: amounts of padding, neutral operands, sizes, weights of layers"),
    Step(SUMS_OF_CONSTANTS, "after folding, which shows what is constant"),
    Step(_fold, "the sums of constants", only_after_changes=True),
    Step((*PADS, *BATCH_NORM), "after folding, which computes the amounts, and the weights that a program scales"),
    Step(CAUSAL_CONVOLUTIONS, "after paddings have become part of convolutions"),
    Step(
        (*NEUTRAL_OPERANDS, *CASTS, *ARITHMETIC),
        "after folding, which shows that an operand is 1 or 0; in this order, as each makes the next possible",
    ),
    Step(
        (*REPEATS, *FOURIER_TRANSFORMS, *CACHE_WRITES),
        "before moves, which merge the reshapes and transposes that these look for with others",
    ),
    Step(_MOVES, "after all that looks for operators which are moved"),
    Step(ELEMENTWISE_TRANSPOSES, "after transposes that follow each other have become one"),
    Step(_MOVES, "for moves that follow each other now", only_after_changes=True),
    Step(_remove_unused, "the constants that folding has read, and branches that nothing reads"),
)


def rewrite_for_onnxruntime(model: ir.Model, opset: int) -> None:
    """Apply the rewrites without which onnxruntime would refuse a model, or get it wrong."""
    apply_rewrites(model, REQUIRED, opset, operators_of(model))


def use_few_bits(model: ir.Model, opset: int, bits: int, for_onnxruntime: bool) -> None:
    """Store the weights of products as integers of a few bits, which are made when the model is written."""
    if apply_rewrites(model, few_bits(bits, for_onnxruntime), opset, operators_of(model)):
        remove_unused(model)


def use_operators_of_onnxruntime(model: ir.Model, opset: int, may_compute: MayCompute) -> None:
    """Apply the rewrites to operators that no other runtime has."""
    keeps_weights = may_compute is not MayCompute.FROM_ALL_WEIGHTS
    if apply_rewrites(model, FOR_ONNXRUNTIME, opset, operators_of(model), keeps_weights=keeps_weights):
        remove_unused(model)


def optimize(model: ir.Model, opset: int, may_compute: MayCompute) -> None:
    """Do all steps, or none if nothing may be computed."""
    if may_compute is MayCompute.NOTHING:
        return
    keeps_weights = may_compute is MayCompute.FROM_SMALL_WEIGHTS
    operators = operators_of(model)
    has_changed = False
    for step in ORDER:
        if step.only_after_changes and not has_changed:
            continue
        if callable(step.does):
            step.does(model, keeps_weights)
        else:
            has_changed = apply_rewrites(model, step.does, opset, operators, keeps_weights=keeps_weights)
