"""Lowers one node of the ATen graph: finds its lowering, calls it, and checks its results.

The dtype of each result is compared with the one that torch gives, so that a lowering that forgets a cast fails during
the export.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_ONNX, type_of
from onnx_parity.exporter.errors import CaptureError, ExportError, LoweringError, Refusal, Unsupported
from onnx_parity.exporter.fallback.encoding import NOT_VALUES
from onnx_parity.exporter.graph.graph import Block, Holds, Node, Origin, Primitive, SymbolSource, operator_name
from onnx_parity.exporter.graph.graph import Graph as AtenGraph
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.graph.names_of_axes import in_names_of_axes
from onnx_parity.exporter.graph.origin import last_user_origin
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.custom.torch_ops import as_aten, as_recorded
from onnx_parity.exporter.lowering.options import LoweringOptions, OperatorExportTypes
from onnx_parity.exporter.lowering.program_values import ProgramValues
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.recording.known_values import results_of_weights
from onnx_parity.exporter.registry.lowerings import Lowering, find, is_from_user
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, overload_of
from onnx_parity.exporter.torch_inside.frames import last_line_in
from onnx_parity.exporter.torch_inside.imports import file_of_module

__all__ = ["NodeLowering"]

#: By `operator_export_type`, the function that writes an operator without a lowering as an operator of torch.
_FALLBACKS = {
    OperatorExportTypes.ONNX_ATEN: as_aten,
    OperatorExportTypes.ONNX_ATEN_FALLBACK: as_aten,
    OperatorExportTypes.ONNX_FALLTHROUGH: as_recorded,
    OperatorExportTypes.RAW: as_recorded,
}
#: With these, every operator is written as an operator of torch.
_WITHOUT_LOWERINGS = (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.RAW)


class _InputRefused(Unsupported):
    """A node needs a size of the result of a refused operator. The refusal of that operator is reported alone."""


class NodeLowering:
    """Lowers nodes one after the other. Refusals are collected, so that all refusals of a program are reported."""

    def __init__(self, graph: AtenGraph, g: Graph, values: ProgramValues, options: LoweringOptions) -> None:
        self.graph = graph
        self.g = g
        self.values = values
        self.options = options
        self.refusals: list[Refusal] = []
        #: The results of refused operators. Nodes that depend on them are skipped.
        self._refused: set[AtenValue] = set()
        self._fallback = _FALLBACKS.get(options.style)
        g.bind_symbols(self._source_of_symbol)
        g.bind_blocks(self.lower_block)

    def lower(self, node: Node) -> None:
        """Add the nodes of an ATen node to `g`, or a refusal."""
        function = self._lowering_of(node)
        first = len(self.g.nodes)
        if function is None:
            if self._is_of_weights(node, first):
                return
            from onnx_parity.exporter.lowering.without_lowering import why_not

            self._refuse(node, why_not(operator_name(node.op)), None)
            return
        if any(value in self._refused for value in node.inputs()):
            self._skip(node)
            return
        if self.options.modules_become_functions:
            self.g.known_numbers.clear()
        try:
            results = self._empty_results(node, function) or self._call(node, function)
            # Such as a decomposition of a weight: torch's own result has torch's signs, and takes no loop in each run.
            has_loop = any(made.op_type == "Loop" for made in self.g.nodes[first:])
            if has_loop and self._is_of_weights(node, first):
                return
            self._bind(node, results, first)
        except _InputRefused:
            self._skip(node)
            return
        except LoweringError as error:
            _raise_if_torch_refuses(node, error)
            raise
        except Unsupported as error:
            if not self._written_as_torch_operator(node, first) and not self._is_of_weights(node, first):
                self._refuse(node, error.reason, error.since)
                return
        self._annotate(node, first)

    def is_kept(self, op: OpOverload) -> bool:
        """Whether an operator stays in the model even if its result is known: what a user wants to see there."""
        if self.options.style in _WITHOUT_LOWERINGS or op in self.options.table:
            return True
        function = find(op, self.g.opset)
        return function is not None and is_from_user(function)

    def lower_block(self, block: Block, inputs: Sequence[Value], outputs: Sequence[AtenValue]) -> list[Value]:
        """Lower those nodes of a block that the given outputs depend on, into the subgraph that is open in `g`."""
        for aten, value in zip(block.inputs, inputs, strict=True):
            self.values[aten] = shaped(value, aten.shape)
        for node in self.graph.live_in(block.nodes, outputs):
            self.lower(node)
        if any(value in self._refused for value in outputs):
            raise _InputRefused("an operator of the block is refused")
        results = [self.values[value] for value in outputs]
        made = (output for node in block.nodes for output in node.outputs if output is not None)
        # Values of a subgraph do not exist outside of it.
        self.values.forget((*block.inputs, *made))
        return results

    # --- the call -------------------------------------------------------------------------------------------------

    def _lowering_of(self, node: Node) -> Lowering | None:
        if isinstance(node.op, Primitive):
            # Control flow and lists are not operators of torch, and are always written as ONNX's.
            return find(node.op, self.g.opset)
        function = None
        if self.options.style not in _WITHOUT_LOWERINGS:
            function = self.options.table.get(node.op) or find(node.op, self.g.opset)
        fallback = self._fallback
        if function is None and fallback is not None:
            return lambda g, **_: fallback(g, node, self.values.__getitem__)
        return function

    def _empty_results(self, node: Node, function: Lowering) -> list[Value | None] | None:
        """Constants for a node whose results have no elements, because runtimes fail for empty tensors."""
        is_ours = isinstance(node.op, OpOverload) and node.op.namespace == "aten" and not is_from_user(function)
        shapes = [output.shape for output in node.outputs if output is not None and output.holds is Holds.TENSOR]
        if not is_ours or self._fallback is not None or not shapes or len(shapes) != len(node.outputs):
            return None
        if not all(all(isinstance(size, int) for size in shape) and 0 in shape for shape in shapes):
            return None
        return [
            self.g.const(torch.empty(output.shape, dtype=output.dtype)) for output in node.outputs if output is not None
        ]

    def _call(self, node: Node, function: Lowering) -> Any:
        self.g.node = node
        self.g.is_checked = is_from_user(function)
        arguments = {
            name: self._lowered(argument) for name, argument in node.arguments.items() if name not in NOT_VALUES
        }
        try:
            return function(self.g, **arguments)
        except (ExportError, Unsupported):
            raise
        except Exception as error:
            if any(output is not None and output.holds is Holds.ANY_RANK for output in node.outputs):
                raise Unsupported("its lowering needs the number of axes, which depends on sizes or values") from error
            # The lowering may be a callable object without a name of its own.
            name = getattr(function, "__qualname__", type(function).__qualname__)
            place = last_user_origin(error).placed or _last_line_of_family(function, error).placed
            name = f"{function.__module__}.{name}{place}"
            raise LoweringError(
                f"the lowering of {node.op} ({name}) failed with {type(error).__name__}: {error}"
                f"{_misnamed(function, arguments)}{node.origin.on_its_own_line}"
            ) from error

    def _lowered(self, argument: Any) -> Any:
        if isinstance(argument, AtenValue):
            return self.values[argument]
        if isinstance(argument, list):
            return [self._lowered(item) for item in argument]
        return argument

    def _source_of_symbol(self, name: str) -> SymbolSource[Value]:
        source = self.graph.symbol_sources[name]
        if source.value in self._refused:
            raise _InputRefused(f"the size {name} is that of a refused operator's result")
        return SymbolSource(self.values[source.value], *source[1:])

    # --- the results ----------------------------------------------------------------------------------------------

    def _bind(self, node: Node, results: Any, first: int) -> None:
        """Check the results of a lowering, whose nodes start at number `first`, and store them as outputs."""
        values = _as_values(node, results)
        # Only for users' lowerings. The test cases check those of this package, and shape inference is slow.
        shapes: dict[ir.Value, list[int | None]] = {}
        if self.g.is_checked:
            from onnx_parity.exporter.lowering.custom.inferred_shapes import shapes_of

            shapes = shapes_of(self.g.nodes[first:], {**self.g.domains, "": self.g.opset})
        for output, result in zip(node.outputs, values, strict=False):
            if output is None or result is None:
                continue
            if result.has_assumed_dtype:
                result.dtype = output.dtype
                result.ir.type = ir.TensorType(TO_ONNX[output.dtype])
            _check_result(node, output, result, shapes.get(result.ir))
            if output.holds.has_any_rank:
                result.shape = result.ir.shape = None
                result.ir.type = type_of(output.dtype, output.holds)
                self.values[output] = result
                continue
            if result.shape is None:
                result.shape = output.shape
            if result.ir.shape is None:
                result.ir.shape = self.values.shape(output.shape)
            if output.holds is not Holds.TENSOR:
                result.ir.type = type_of(output.dtype, output.holds)
            self.values[output] = result

    def _annotate(self, node: Node, first: int) -> None:
        for made in self.g.nodes[first:]:
            made.meta["origin"] = node

    def _is_of_weights(self, node: Node, first: int) -> bool:
        """Replace the nodes that a lowering added by constants, if all depends on weights alone."""
        if not self.options.reads_weights or not isinstance(node.op, OpOverload) or self.is_kept(node.op):
            return False
        if (found := results_of_weights(node)) is None:
            return False
        results, constants = found
        self.g.take_back(first)
        for output, result in zip(node.outputs, results, strict=True):
            assert output is not None
            self.values[output] = self.g.const(result.contiguous())
        self.values.read(constants)
        return True

    # --- refusals -------------------------------------------------------------------------------------------------

    def _written_as_torch_operator(self, node: Node, first: int) -> bool:
        """Replace the nodes that a lowering added before it refused by an operator of torch, if that is allowed."""
        if self._fallback is None or isinstance(node.op, Primitive):
            return False
        self.g.take_back(first)
        try:
            self._bind(node, self._fallback(self.g, node, self.values.__getitem__), first)
        except Unsupported:
            self.g.take_back(first)
            return False
        return True

    def _refuse(self, node: Node, reason: str, since: int | None) -> None:
        reason = in_names_of_axes(reason, self.graph.axis_names)
        self.refusals.append(Refusal(_full_name(node), reason, node.origin.where, node.origin.module, since))
        self._skip(node)

    def _skip(self, node: Node) -> None:
        self._refused.update(output for output in node.outputs if output is not None)


def _last_line_of_family(function: Lowering, error: BaseException) -> Origin:
    """The innermost line of an error's traceback in the file of a lowering of this package."""
    file = file_of_module(function.__module__)
    line = last_line_in(file, error)
    return Origin(file, line) if file is not None and line is not None else Origin("", 0)


def _as_values(node: Node, results: Any) -> list[Value | None]:
    """The results of a lowering as a list, which may be shorter than the outputs of the operator."""
    values = list(results) if isinstance(results, (list, tuple)) else [results]
    wrong = [each for each in values if each is not None and not isinstance(each, Value)]
    if wrong or (results is None and len(node.outputs) == 1):
        raise LoweringError(
            f"the lowering of {node.op} returned {wrong[0] if wrong else None!r}: return a value of the graph, such as "
            f"g.op returns{node.origin.on_its_own_line}"
        )
    if len(values) > len(node.outputs):
        raise LoweringError(
            f"the lowering of {node.op} returned {len(values)} values, but the operator has {len(node.outputs)} "
            f"outputs: return one value for each{node.origin.on_its_own_line}"
        )
    return values


def _check_result(node: Node, output: AtenValue, result: Value, shape: Sequence[int | None] | None) -> None:
    """Check a result, of which `shape` is what ONNX infers, if it does."""
    if result.dtype is not output.dtype:
        raise LoweringError(
            f"the lowering of {node.op} returned {result.dtype}, but torch returns {output.dtype}: cast the result, "
            f"g.cast(y, {output.dtype}){node.origin.on_its_own_line}"
        )
    if shape is None or output.holds is not Holds.TENSOR:
        return
    if len(shape) != len(output.shape):
        raise LoweringError(
            f"the lowering of {node.op} returned a tensor of {len(shape)} axes, but torch returns one of "
            f"{len(output.shape)}: return one of that rank{node.origin.on_its_own_line}"
        )
    for axis, (size, torchs) in enumerate(zip(shape, output.shape, strict=True)):
        if size is not None and isinstance(torchs, int) and size != torchs:
            raise LoweringError(
                f"the lowering of {node.op} returned a tensor whose axis {axis} has the size {size}, but torch returns "
                f"one of the size {torchs}: look at the attributes of its nodes{node.origin.on_its_own_line}"
            )


def _raise_if_torch_refuses(node: Node, error: LoweringError) -> None:
    """Report an error of the program if torch cannot compute the call either, so that the lowering is not at fault."""
    from onnx_parity.exporter.lowering.custom.torch_refusal import torchs_refusal

    refusal = torchs_refusal(node)
    if refusal is not None:
        raise CaptureError(
            f"torch records {node.op}{node.origin.placed_in_full}, but does not compute it: {refusal}\n"
            "Calling the program with the same arguments fails without exporting too: correct it there first."
        ) from error


def _full_name(node: Node) -> str:
    overload = "default" if isinstance(node.op, Primitive) else overload_of(node.op)
    return operator_name(node.op) + ("" if overload == "default" else f".{overload}")


def _misnamed(function: Lowering, arguments: Mapping[str, Any]) -> str:
    """The names that the parameters of a lowering must have, if it cannot be called with these arguments."""
    try:
        inspect.signature(function).bind(None, **arguments)
    except TypeError:
        return f"\nIts parameters are named as in the schema of the operator: g, {', '.join(arguments)}"
    except ValueError:  # It is written in C.
        return ""
    return ""
