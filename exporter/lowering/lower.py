"""Lowers an ATen graph to an ONNX model at one opset: inputs, nodes (see `lower_node`), outputs.

Refusals are collected over the whole program and raised together. Each names the operator, the reason, the user's line,
the module, and the first opset that supports it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec
import onnx_ir as ir
import torch

from onnx_parity import __version__
from onnx_parity.exporter.dtypes import type_of
from onnx_parity.exporter.errors import Refusal, Unsupported, UnsupportedOperatorsError
from onnx_parity.exporter.graph.assumptions import ASSUMPTIONS_HOLD, Assumption
from onnx_parity.exporter.graph.graph import Block, Holds, Node, Varying
from onnx_parity.exporter.graph.graph import Graph as AtenGraph
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.graph.quantized_weights import lone_weights, quantizes_per_channel
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.lower_node import NodeLowering
from onnx_parity.exporter.lowering.opsets.sequences import NO_BFLOAT16
from onnx_parity.exporter.lowering.options import LoweringOptions
from onnx_parity.exporter.lowering.program_values import ProgramValues
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.recording.quantized_weights import with_quantized_weights
from onnx_parity.exporter.request.opsets import IR_VERSIONS

__all__ = ["Lowered", "Names", "lower"]

#: The plural of each type of an input, and the first opset that has operators for it.
_SINCE = {Holds.TENSOR: ("tensors", 1), Holds.LIST: ("sequences", 11), Holds.OPTIONAL: ("optionals", 15)}


class Names(msgspec.Struct, frozen=True):
    """The names of the inputs and outputs, and those of the dynamic axes of outputs, by output and axis."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    output_axes: Mapping[int, Mapping[int, str]]


class Lowered(msgspec.Struct, frozen=True):
    """A model, and its value for each weight of the program, by the name of the weight in the program."""

    model: ir.Model
    weights: Mapping[str, ir.Value]
    #: Weights whose values a lowering has read. The model may depend on them in other ways than through initializers.
    built_in: frozenset[str]


def lower(graph: AtenGraph, opset: int, names: Names, options: LoweringOptions) -> Lowered:
    """Lower a captured program. Raises `UnsupportedOperatorsError` with everything that cannot be lowered."""
    return _ModelLowering(graph, opset, names, options).run()


class _ModelLowering:
    def __init__(self, graph: AtenGraph, opset: int, names: Names, options: LoweringOptions) -> None:
        self.graph = graph
        self.names = names
        self.options = options
        self.g = Graph(opset)
        self.g.versions = options.opset_versions
        self.values = ProgramValues(graph, self.g, weights_are_inputs=options.weights_are_inputs)
        self.nodes = NodeLowering(graph, self.g, self.values, options)

    def run(self) -> Lowered:
        for name in (*self.names.inputs, *self.names.outputs):
            self.g.new_name(name)
        inputs = self._inputs()
        known = {} if self.options.known is None else self.options.known.tensors(self.nodes.is_kept)
        self.values.known = known
        conditions = self.options.conditions or ()
        numbers = {
            str(symbol) for each in conditions if each.of_values is not None for symbol in each.of_values.free_symbols
        }
        of_numbers = [each.value for name, each in self.graph.symbol_sources.items() if name in numbers]
        read = [*of_numbers, *(value for each in conditions for value in each.values)]
        live: Sequence[Node] = self.graph.live_nodes(known, read)
        if self.options.reads_weights:
            live, made_of = with_quantized_weights(self.graph, live, known, self.nodes.is_kept)
            if made_of:
                live = self.graph.live_in(live, [*self.graph.outputs, *read], known)
            self.values.read(made_of)
        sources = {name: each.value for name, each in self.graph.symbol_sources.items() if each.value.node is not None}
        self.g.read = frozenset((*_read_by(live), *_read_as_numbers(live, sources), *self.graph.outputs, *read))
        self.g.lone_weights = lone_weights(live)
        self.g.quantizes_per_channel = quantizes_per_channel(live)
        for node in live:
            self.nodes.lower(node)
        if self.nodes.refusals:
            raise UnsupportedOperatorsError(self.g.opset, self.nodes.refusals)
        outputs = self._outputs(inputs)
        if self.options.conditions is not None:
            outputs.append(self._whether_all_hold(conditions))
        model = self._model(inputs, outputs)
        weights = self.values.weights
        built_in = frozenset(name for name, value in weights.items() if value.is_constant_read)
        return Lowered(model, {name: value.ir for name, value in weights.items()}, built_in)

    def _inputs(self) -> list[ir.Value]:
        inputs = []
        refusals = []
        for item, name in zip(self.graph.inputs, self.names.inputs, strict=True):
            aten = item.value
            kind, since = _SINCE[aten.holds]
            if self.g.opset < since:
                reason = f"ONNX has {kind} only from opset {since}"
                refusals.append(Refusal(f"the input {name!r}", reason, "", "", since))
            elif aten.holds is not Holds.TENSOR and aten.dtype is torch.bfloat16:
                refusals.append(Refusal(f"the input {name!r}", NO_BFLOAT16, "", "", None))
            value = ir.Value(name=name, type=type_of(aten.dtype, aten.holds), shape=self.values.shape(aten.shape))
            inputs.append(value)
            self.values[aten] = Value(value, aten.dtype, aten.shape)
        if refusals:
            raise UnsupportedOperatorsError(self.g.opset, refusals)
        return inputs

    def _outputs(self, inputs: list[ir.Value]) -> list[ir.Value]:
        taken, names = {id(value) for value in inputs}, set(self.names.outputs)
        outputs = []
        for number, (aten, name) in enumerate(zip(self.graph.outputs, self.names.outputs, strict=True)):
            value = self._result(aten, name)
            if id(value.ir) in taken or value.ir.producer() is None or value.ir.name in names:
                # ONNX requires that an output is the result of a node, and different from all inputs and outputs.
                value = self._identity(value, name)
            value.ir.name = name
            if aten.holds is Holds.ANY_RANK:
                # ONNX's checker wants a number of axes: it is the example's, and runtimes take others.
                value.ir.shape = ir.Shape([None] * len(aten.shape))
            elif aten.holds is Holds.LIST_OF_ANY_RANK:
                value.ir.shape = None
            else:
                value.ir.shape = self.values.shape(aten.shape, self.names.output_axes.get(number, {}))
            taken.add(id(value.ir))
            outputs.append(value.ir)
        return outputs

    def _whether_all_hold(self, conditions: Sequence[Assumption]) -> ir.Value:
        """The output that tells whether the conditions hold for the model's inputs."""
        try:
            holding = [self.g.reshape(held, []) for each in conditions for held in self._whether(each)]
            whether = functools.reduce(functools.partial(self.g.op, "And"), holding or [self.g.const(True, torch.bool)])
        except Unsupported as error:
            self._refuse_output(ASSUMPTIONS_HOLD, error)
        output = self._identity(whether, ASSUMPTIONS_HOLD).ir
        output.name, output.shape = self.g.new_name(ASSUMPTIONS_HOLD), ir.Shape([])
        return output

    def _whether(self, condition: Assumption) -> Iterator[Value]:
        if condition.of_layout is not None:
            return  # A model is given values alone.
        if condition.of_sizes is None and not condition.values:
            self.g.unsupported(f"the model cannot compute whether {condition.condition} holds")
        if condition.of_sizes is not None:
            from onnx_parity.exporter.expressions.expression import Symbol

            symbols = {name: symbol for symbol, name in self.graph.axis_names.items()}
            axes = {each: Symbol(symbols[str(each)]) for each in condition.of_sizes.free_symbols}
            yield self.g.truth(condition.of_sizes.xreplace(axes))
        if condition.of_values is not None:
            yield self.g.truth(condition.of_values)
            return
        for value, expected in zip(condition.values, condition.expected, strict=True):
            equal = self.g.equal(self.values[value], self.g.literal(expected))
            least = self.g.op("ReduceMin", self.g.cast(equal, torch.float32), keepdims_i=0) if expected.dim() else None
            yield equal if least is None else self.g.cast(least, torch.bool)

    def _result(self, aten: AtenValue, output: str) -> Value:
        try:
            return self.values[aten]
        except Unsupported as error:
            self._refuse_output(output, error)

    def _identity(self, value: Value, output: str) -> Value:
        try:
            return self.g.identity(value)
        except Unsupported as error:
            self._refuse_output(output, error)

    def _refuse_output(self, output: str, error: Unsupported) -> NoReturn:
        refusal = Refusal(f"the output {output!r}", error.reason, "", "", error.since)
        raise UnsupportedOperatorsError(self.g.opset, [refusal]) from None

    def _model(self, inputs: list[ir.Value], outputs: list[ir.Value]) -> ir.Model:
        functions = self.g.functions.listed()
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=self.g.nodes,
            initializers=tuple(self.g.initializers.values()),
            opset_imports=self._opset_imports(functions),
            name="main_graph",
        )
        return ir.Model(
            graph,
            ir_version=IR_VERSIONS[self.g.opset],
            producer_name="onnx-parity",
            producer_version=__version__,
            functions=functions,
        )

    def _opset_imports(self, functions: Sequence[ir.Function]) -> dict[str, int]:
        domains = dict(self.g.domains)
        for function in functions:
            # onnxruntime inlines functions, and so requires the imports of their bodies in the model too.
            domains |= {domain: version for domain, version in function.opset_imports.items() if domain}
        domains |= {domain: version for domain, version in self.options.opset_versions.items() if domain in domains}
        return {"": self.g.opset, **dict(sorted(domains.items()))}


def _read_by(nodes: Iterable[Node]) -> Iterator[AtenValue]:
    """The values that nodes read, directly or in their blocks."""
    for node in nodes:
        yield from node.inputs()
        for argument in node.arguments.values():
            if isinstance(argument, Block):
                yield from _read_by(argument.nodes)
                yield from argument.outputs


def _read_as_numbers(nodes: Iterable[Node], sources: Mapping[str, AtenValue]) -> Iterator[AtenValue]:
    """The values whose sizes or numbers are among the arguments of nodes, as symbols."""
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
