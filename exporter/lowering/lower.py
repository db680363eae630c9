"""The ATen graph to an ONNX model at one opset: calls each node's lowering, checks what it returns, names the ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx.helper
import onnx_ir as ir
import torch
from torch._ops import OpOverload

from onnx_parity.exporter.capture.graph.graph import Block, Holds, Node, Primitive, Size, Varying, operator_name
from onnx_parity.exporter.capture.graph.graph import Graph as AtenGraph
from onnx_parity.exporter.capture.graph.graph import Value as AtenValue
from onnx_parity.exporter.capture.graph.origin import last_user_line
from onnx_parity.exporter.dtypes import TO_ONNX, type_of
from onnx_parity.exporter.errors import (
    CaptureError,
    ExportError,
    LoweringError,
    Refusal,
    Unsupported,
    UnsupportedOperatorsError,
)
from onnx_parity.exporter.fallback.encoding import NOT_VALUES
from onnx_parity.exporter.files.lazy_tensors import WeightTensor
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.custom.rank_check import ranks_of
from onnx_parity.exporter.lowering.custom.torch_ops import as_aten, as_recorded
from onnx_parity.exporter.lowering.custom.torch_refusal import torchs_refusal
from onnx_parity.exporter.lowering.opsets.sequences import NO_BFLOAT16
from onnx_parity.exporter.lowering.options import Emission, OperatorExportTypes
from onnx_parity.exporter.lowering.registry import Lowering, find, is_users
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.version import PRODUCER, VERSION

__all__ = ["Lowered", "Names", "lower"]

#: What writes an operator that has no lowering, and where every operator is written so.
_FALLBACKS = {
    OperatorExportTypes.ONNX_ATEN: as_aten,
    OperatorExportTypes.ONNX_ATEN_FALLBACK: as_aten,
    OperatorExportTypes.ONNX_FALLTHROUGH: as_recorded,
    OperatorExportTypes.RAW: as_recorded,
}
_NO_LOWERING_ASKED = (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.RAW)
_AS_ONNX = Emission()
#: From which opset there is something to do with an input of a kind.
_SINCE = {Holds.TENSOR: ("tensors", 1), Holds.LIST: ("sequences", 11), Holds.OPTIONAL: ("optionals", 15)}


class Names:
    """What the ends of the graph are called: inputs, outputs, and the sizes that vary."""

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        output_axes: Mapping[int, Mapping[int, str]],
        reserved: Sequence[str] = (),
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.output_axes = output_axes
        self.reserved = reserved


@dataclass(frozen=True, slots=True)
class Lowered:
    """A model, and of each weight of the program, by its name there, what became of it."""

    model: ir.Model
    weights: Mapping[str, ir.Value]
    #: Weights whose values a lowering has looked at, and may have built in.
    built_in: frozenset[str]


def lower(graph: AtenGraph, opset: int, names: Names, emission: Emission = _AS_ONNX) -> Lowered:
    """Lower a captured program. Raises `UnsupportedOperatorsError` listing everything that cannot be lowered."""
    return _Lowering(graph, opset, names, emission).run()


class _RefusedBefore(Unsupported):
    """An operator needs a size that a refused operator would have given: the one refusal is enough."""


class _Lowering:
    def __init__(self, graph: AtenGraph, opset: int, names: Names, emission: Emission) -> None:
        self.graph = graph
        self.names = names
        self.emission = emission
        self.weights: dict[str, Value] = {}
        self.g = Graph(opset)
        self.g.versions = emission.opset_versions
        self.values: dict[AtenValue, Value] = {}
        self.refusals: list[Refusal] = []
        #: Values of operators that were refused: what depends on them is not tried.
        self.refused: set[AtenValue] = set()

    def run(self) -> Lowered:
        g = self.g
        for name in (*self.names.inputs, *self.names.outputs):
            g.fresh(name)
        inputs = []
        for item, name in zip(self.graph.inputs, self.names.inputs, strict=True):
            kind = type_of(item.value.dtype, item.value.holds)
            value = ir.Value(name=name, type=kind, shape=self._shape(item.value.shape))
            inputs.append(value)
            self.values[item.value] = Value(value, item.value.dtype, item.value.shape)
        self._refuse_early_inputs()
        g.bind_symbols(self._symbol)
        g.bind_blocks(self._lower_block)
        live = self.graph.live_nodes()
        sources = {name: value for name, (value, _) in self.graph.symbol_sources.items() if value.node is not None}
        g.read = frozenset((*_read_by(live), *_read_as_numbers(live, sources), *self.graph.outputs))
        for node in live:
            self._lower_node(node)
        if self.refusals:
            raise UnsupportedOperatorsError(g.opset, self.refusals)
        outputs = self._outputs(inputs)
        domains = dict(g.domains)
        for function in g.functions.listed():
            # onnxruntime puts bodies in the place of calls, and so wants their domains here too.
            domains |= {domain: version for domain, version in function.opset_imports.items() if domain}
        domains |= {domain: version for domain, version in self.emission.opset_versions.items() if domain in domains}
        imports = {"": g.opset, **dict(sorted(domains.items()))}
        onnx_graph = ir.Graph(
            inputs,
            outputs,
            nodes=g.nodes,
            initializers=tuple(g.initializers.values()),
            opset_imports=imports,
            name="main_graph",
        )
        model = ir.Model(
            onnx_graph,
            ir_version=onnx.helper.OP_SET_ID_VERSION_MAP[("ai.onnx", g.opset)],
            producer_name=PRODUCER,
            producer_version=VERSION,
            functions=g.functions.listed(),
        )
        weights = {name: value.ir for name, value in self.weights.items()}
        return Lowered(model, weights, frozenset(name for name, value in self.weights.items() if value.looked_at))

    def _refuse_early_inputs(self) -> None:
        """Types of inputs that the opset has no operators for."""
        refusals = []
        for item, name in zip(self.graph.inputs, self.names.inputs, strict=True):
            said, since = _SINCE[item.value.holds]
            if self.g.opset < since:
                reason = f"ONNX has {said} only from opset {since}"
                refusals.append(Refusal(f"the input {name!r}", reason, "", "", since))
            elif item.value.holds is not Holds.TENSOR and item.value.dtype is torch.bfloat16:
                refusals.append(Refusal(f"the input {name!r}", NO_BFLOAT16, "", "", None))
        if refusals:
            raise UnsupportedOperatorsError(self.g.opset, refusals)

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _lower_node(self, node: Node) -> None:
        function = self._function(node)
        if any(value in self.refused for value in node.inputs()):
            if function is None:
                self._refuse(node, "there is no lowering for it", None)
            self._give_up(node)
            return
        if function is None:
            self._refuse(node, "there is no lowering for it", None)
            return
        first = len(self.g.nodes)
        if self.emission.modules_apart:
            self.g.integers.clear()
        try:
            self._bind(node, self._nothing(function, node) or self._call(function, node), first)
        except _RefusedBefore:
            self._give_up(node)
            return
        except LoweringError as error:
            _blame_the_program(node, error)
            raise
        except Unsupported as error:
            if self._fallback is None or isinstance(node.op, Primitive) or not self._falls_back(node, first):
                self._refuse(node, error.reason, error.since)
                return
        for made in self.g.nodes[first:]:
            made.meta["origin"] = node
            if self.emission.doc_strings:
                made.doc_string = f"{node.op}{node.origin.placed_in_full}"

    @property
    def _fallback(self) -> Any:
        return _FALLBACKS.get(self.emission.style)

    def _function(self, node: Node) -> Lowering | None:
        fallback = self._fallback
        function = None
        # Control flow is nobody's operator, and always ONNX's.
        if self.emission.style not in _NO_LOWERING_ASKED or isinstance(node.op, Primitive):
            own = self.emission.table.get(node.op) if isinstance(node.op, OpOverload) else None
            function = own or find(node.op, self.g.opset)
        if function is None and fallback is not None and not isinstance(node.op, Primitive):
            return lambda g, **_: fallback(g, node, self._value)
        return function

    def _falls_back(self, node: Node, first: int) -> bool:
        """Write an operator as torch's own after its lowering has refused; what that has written is taken back."""
        self.g.take_back(first)
        try:
            self._bind(node, self._fallback(self.g, node, self._value), first)
        except Unsupported:
            self.g.take_back(first)
            return False
        return True

    def _lower_block(self, block: Block, inputs: Sequence[Value], outputs: Sequence[AtenValue]) -> list[Value]:
        for aten, value in zip(block.inputs, inputs, strict=True):
            self.values[aten] = shaped(value, aten.shape)
        for node in self.graph.live_in(block.nodes, outputs):
            self._lower_node(node)
        if any(value in self.refused for value in outputs):
            raise _RefusedBefore("an operator of the block is refused")
        results = [self._value(value) for value in outputs]
        made = (output for node in block.nodes for output in node.outputs if output is not None)
        for inner in (*block.inputs, *made):
            # Nothing outside may use it.
            self.values.pop(inner, None)
        return results

    def _nothing(self, function: Lowering, node: Node) -> list[Value | None] | None:
        """What a node returns whose results have no elements: nothing is computed, and runtimes stumble over it."""
        torchs = isinstance(node.op, OpOverload) and node.op.namespace == "aten" and not is_users(function)
        shapes = [output.shape for output in node.outputs if output is not None and output.holds is Holds.TENSOR]
        if not torchs or self._fallback is not None or not shapes or len(shapes) != len(node.outputs):
            return None
        if not all(all(isinstance(size, int) for size in shape) and 0 in shape for shape in shapes):
            return None
        return [
            self.g.const(torch.empty(output.shape, dtype=output.dtype)) for output in node.outputs if output is not None
        ]

    def _call(self, function: Lowering, node: Node) -> Any:
        self.g.node = node
        self.g.is_checked = is_users(function)
        arguments = {
            name: self._lowered(argument) for name, argument in node.arguments.items() if name not in NOT_VALUES
        }
        try:
            return function(self.g, **arguments)
        except (ExportError, Unsupported):
            raise
        except Exception as error:
            # A callable object has no name of its own.
            name = getattr(function, "__qualname__", type(function).__qualname__)
            name = f"{function.__module__}.{name}{last_user_line(error).placed}"
            raise LoweringError(
                f"the lowering of {node.op} ({name}) failed with "
                f"{type(error).__name__}: {error}{node.origin.on_its_own_line}"
            ) from error

    def _lowered(self, argument: Any) -> Any:
        if isinstance(argument, AtenValue):
            return self._value(argument)
        if isinstance(argument, list):
            return [self._lowered(item) for item in argument]
        return argument

    def _value(self, value: AtenValue) -> Value:
        known = self.values.get(value)
        if known is not None:
            return known
        if value.constant is None:
            raise CaptureError(
                f"the program takes a tensor out of a branch or loop{_at(self.g.node)} by other means than returning "
                "it: it exists only while that runs. Return it from the function"
            )
        tensor = value.constant
        if not value.name and tensor.numel() <= 64 and not tensor.is_meta:
            known = self.g.const(tensor.cpu())
        else:
            data = WeightTensor(tensor)
            shape = tuple(tensor.shape)
            known = self.g.initializer(self.g.fresh(value.name or "literal"), data, value.dtype, shape)
            if value.name:
                self.weights[value.name] = known
            if not tensor.is_meta and not (value.name and self.emission.weights_vary):
                known.constant = tensor
        self.values[value] = known
        return known

    def _bind(self, node: Node, results: Any, first: int) -> None:
        """Check what a lowering returned against what torch says the operator returns, and give it its shape. It has
        emitted the nodes from this number on.
        """
        flat = list(results) if isinstance(results, (list, tuple)) else [results]
        wrong = [each for each in flat if each is not None and not isinstance(each, Value)]
        if wrong or (results is None and len(node.outputs) == 1):
            raise LoweringError(
                f"the lowering of {node.op} returned {wrong[0] if wrong else None!r} where a value of the graph is "
                f"due, such as g.op returns{node.origin.on_its_own_line}"
            )
        if len(flat) > len(node.outputs):
            raise LoweringError(f"the lowering of {node.op} returned {len(flat)} values; it has {len(node.outputs)}")
        # Only of somebody else's lowering: this package's own are held to it by their cases, and not slowed.
        ranks = ranks_of(self.g.nodes[first:], {**self.g.domains, "": self.g.opset}) if self.g.is_checked else {}
        for output, result in zip(node.outputs, flat, strict=False):
            if output is None or result is None:
                continue
            if result.is_foreign:
                result.dtype = output.dtype
                result.ir.type = self._type(output.dtype)
            if result.dtype is not output.dtype:
                raise LoweringError(
                    f"the lowering of {node.op} returned {result.dtype} where torch returns {output.dtype}"
                    f"{node.origin.on_its_own_line}"
                )
            rank = ranks.get(result.ir, len(output.shape))
            if rank != len(output.shape) and output.holds is Holds.TENSOR:
                raise LoweringError(
                    f"the lowering of {node.op} returned a tensor of {rank} axes where torch returns one of "
                    f"{len(output.shape)}{node.origin.on_its_own_line}"
                )
            if result.shape is None:
                result.shape = output.shape
            if result.ir.shape is None:
                result.ir.shape = self._shape(output.shape)
            if output.holds is not Holds.TENSOR:
                result.ir.type = type_of(output.dtype, output.holds)
            self.values[output] = result

    def _refuse(self, node: Node, reason: str, since: int | None) -> None:
        # Sizes are called as the user calls them.
        reason = re.sub(r"\bs\d+\b", lambda symbol: self.graph.axis_names.get(symbol[0], symbol[0]), reason)
        self.refusals.append(Refusal(_spelled(node), reason, node.origin.where, node.origin.module, since))
        self._give_up(node)

    def _give_up(self, node: Node) -> None:
        self.refused.update(output for output in node.outputs if output is not None)

    # --- ends -----------------------------------------------------------------------------------------------------

    def _outputs(self, inputs: list[ir.Value]) -> list[ir.Value]:
        taken = {id(value) for value in inputs}
        outputs = []
        for number, (aten, name) in enumerate(zip(self.graph.outputs, self.names.outputs, strict=True)):
            value = self._value(aten)
            if id(value.ir) in taken or value.ir.producer() is None or value.ir.name in self.names.outputs:
                # An input, a constant or another output handed out: ONNX wants a value of its own.
                value = self._handed_out(value, name)
            value.ir.name = name
            value.ir.shape = self._shape(aten.shape, self.names.output_axes.get(number, {}))
            taken.add(id(value.ir))
            outputs.append(value.ir)
        return outputs

    def _handed_out(self, value: Value, name: str) -> Value:
        try:
            return self.g.identity(value)
        except Unsupported as error:
            refusal = Refusal(f"the output {name!r}", error.reason, "", "", error.since)
            raise UnsupportedOperatorsError(self.g.opset, [refusal]) from None

    def _type(self, dtype: torch.dtype) -> ir.TensorType:
        return ir.TensorType(TO_ONNX[dtype])

    def _shape(self, sizes: Sequence[Size], axis_names: Mapping[int, str] | None = None) -> ir.Shape:
        return ir.Shape(
            [
                size if isinstance(size, int) else (axis_names or {}).get(axis) or self.graph.size_name(size)
                for axis, size in enumerate(sizes)
            ]
        )

    def _symbol(self, name: str) -> tuple[Value, int | None]:
        value, axis = self.graph.symbol_sources[name]
        if value in self.refused:
            raise _RefusedBefore(f"the size {name} is that of a refused operator's result")
        return self._value(value), axis


def _at(node: Node | None) -> str:
    return f", to use it{node.origin.placed}," if node is not None and node.origin.placed else ""


def _blame_the_program(node: Node, error: LoweringError) -> None:
    """It is no fault of a lowering if torch does not compute such a call either."""
    refusal = torchs_refusal(node)
    if refusal is not None:
        raise CaptureError(
            f"torch does not compute {node.op}{node.origin.placed_in_full}, though it records it: {refusal}\n"
            "Call the program with the same arguments without exporting: it fails there too. Mend it there first."
        ) from error


def _read_by(nodes: Iterable[Node]) -> Iterator[AtenValue]:
    """The values that nodes read, and those that are read in their blocks."""
    for node in nodes:
        yield from node.inputs()
        for argument in node.arguments.values():
            if isinstance(argument, Block):
                yield from _read_by(argument.nodes)
                yield from argument.outputs


def _read_as_numbers(nodes: Iterable[Node], sources: Mapping[str, AtenValue]) -> Iterator[AtenValue]:
    """The values whose sizes, or whose own numbers, are among the arguments of nodes."""
    if not sources:
        return
    for node in nodes:
        for argument in node.arguments.values():
            for item in argument if isinstance(argument, (list, tuple)) else (argument,):
                if isinstance(item, Varying):
                    names = map(str, item.node.expr.free_symbols)
                    yield from (sources[name] for name in names if name in sources)
                elif isinstance(item, Block):
                    yield from _read_as_numbers(item.nodes, sources)


def _spelled(node: Node) -> str:
    overload = "default" if isinstance(node.op, Primitive) else node.op._overloadname
    return operator_name(node.op) + ("" if overload == "default" else f".{overload}")
