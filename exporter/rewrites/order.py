"""The steps by which `export` and `ONNXProgram.optimize` rewrite a model, in order, with the reason for each place."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.rewriter import Rewrite, apply_rewrites
from onnx_parity.exporter.rewrites.fold_constants import fold_constants
from onnx_parity.exporter.rewrites.merge_equal_nodes import merge_equal_nodes
from onnx_parity.exporter.rewrites.remove_unused import remove_unused
from onnx_parity.exporter.rewrites.tables.arithmetic import ARITHMETIC
from onnx_parity.exporter.rewrites.tables.batch_norm import BATCH_NORM
from onnx_parity.exporter.rewrites.tables.biases import BIASES
from onnx_parity.exporter.rewrites.tables.casts import CASTS
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

__all__ = ["ORDER", "REQUIRED", "MayCompute", "optimize", "rewrite_for_onnxruntime"]

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


_MOVES = (*TRANSPOSES, *RESHAPES, *JOINS)

#: What every model needs, and no option leaves out.
REQUIRED: Table = (*BIASES, *VECTOR_PRODUCTS)

ORDER = (
    Step(ROTARY_EMBEDDING, "before folding, which makes one constant of two equal halves of angles"),
    Step(EXPANSIONS, "before equal nodes are merged: what differs by an expansion alone is equal then"),
    Step(
        lambda model, _: merge_equal_nodes(model),
        "before folding, which stores a result for each of several equal nodes",
    ),
    Step(LAYER_NORMS, "before root mean square norms, of which each layer norm contains one"),
    Step(RMS_NORMS, "before folding: casts and sums of scales are done later, and norms are found by their operators"),
    Step(LINEAR_LAYERS, "before folding, which transposes the weights that it has made a MatMul of"),
    Step(
        lambda model, keeps_weights: fold_constants(model, keeps_weights=keeps_weights),
        "before what needs known constants: amounts of padding, neutral operands, sizes, and the weights of layers",
    ),
    Step(PADS, "after folding, which computes the amounts"),
    Step(SUMS_OF_CONSTANTS, "after folding, which finds what the constants are"),
    Step(
        lambda model, keeps_weights: fold_constants(model, keeps_weights=keeps_weights),
        "the sums of constants",
        only_after_changes=True,
    ),
    Step(BATCH_NORM, "after folding, for layers whose weights are computed from others"),
    Step((*NEUTRAL_OPERANDS,), "after folding, which shows that an operand is 1 or 0"),
    Step(CASTS, "after neutral operands, which may stand between two casts"),
    Step(ARITHMETIC, "after casts that are undone, which may stand between a condition and a product"),
    Step(REPEATS, "before moves, which would merge the reshape with others"),
    Step(FOURIER_TRANSFORMS, "before moves, which would merge the new axis with others"),
    Step(_MOVES, "after all that looks for operators that they move"),
    Step(ELEMENTWISE_TRANSPOSES, "after transposes that follow each other have become one"),
    Step(_MOVES, "moves that follow each other now", only_after_changes=True),
    Step(lambda model, _: remove_unused(model), "what nothing reads any more"),
)


def rewrite_for_onnxruntime(model: ir.Model, opset: int) -> None:
    """Apply the rewrites without which onnxruntime would refuse a model, or get it wrong."""
    apply_rewrites(model, REQUIRED, opset)


def optimize(model: ir.Model, opset: int, may_compute: MayCompute) -> None:
    """Do all steps, or none if nothing may be computed."""
    if may_compute is MayCompute.NOTHING:
        return
    keeps_weights = may_compute is MayCompute.FROM_SMALL_WEIGHTS
    has_changed = False
    for step in ORDER:
        if step.only_after_changes and not has_changed:
            continue
        if callable(step.does):
            step.does(model, keeps_weights)
        else:
            has_changed = apply_rewrites(model, step.does, opset, keeps_weights=keeps_weights)
