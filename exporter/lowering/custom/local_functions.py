"""Local functions (`FunctionProto`): operators whose bodies are in the model, so that every runtime supports them.

A body is written as a function of the model, once for all its calls.

@onnx_parity.local_function("my_domain::Foo")
def foo(g, x, y, alpha):
    return g.op("Add", x, g.op("Mul", y, alpha))

@onnx_parity.lowering("my_ops::foo")
def lower_foo(g, x, y, alpha):
    return foo(g, x, y, alpha)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import onnx_ir as ir
import torch

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.graph.graph import SymbolSource
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import Lowering

if TYPE_CHECKING:
    import onnx

__all__ = ["from_proto", "local_function"]

_F = TypeVar("_F", bound=Callable[..., Any])
#: The first opset whose IR version, 8, has functions.
_SINCE = 15
_NO_FUNCTIONS = "ONNX models have local functions only from IR version 8 on, which is that of opset 15"


def local_function(name: str) -> Callable[[_F], _F]:
    """Turn a function that adds nodes into a local function of the model, which is called instead.

    Tensors among the arguments become inputs of the local function. All other arguments become constants of its body,
    so a call with other numbers calls another function, `Foo_1`.
    """
    given: Any = name
    domain, _, op_type = given.rpartition("::") if isinstance(given, str) else ("", "", "")
    if not domain or not op_type:
        raise ArgumentError(f"{name!r} is not the name of a function: write 'domain::Name', e.g. 'my_domain::Foo'")

    def decorate(function: _F) -> _F:
        parameters = list(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def call(g: Graph, *args: Any, **kwargs: Any) -> Any:
            g.require_opset(_SINCE, _NO_FUNCTIONS)
            named = {**dict(zip(parameters, args, strict=False)), **kwargs}
            outer = {name: value for name, value in named.items() if isinstance(value, Value)}
            body = _Body(g)
            inner = {name: body.input(name, value) for name, value in outer.items()}
            result = function(body, **{**named, **inner})
            results = list(result) if isinstance(result, (list, tuple)) else [result]
            unique = g.functions.add(domain, op_type, body.finished(domain, op_type, list(inner.values()), results))
            outputs = g.typed_op(domain, unique, list(outer.values()), {}, [item.dtype for item in results])
            for output, item in zip(outputs, results, strict=True):
                output.shape = item.shape
            return outputs[0] if not isinstance(result, (list, tuple)) else tuple(outputs)

        return call  # type: ignore[return-value]

    return decorate


def from_proto(proto: onnx.FunctionProto) -> Lowering:
    """A lowering that calls a function given as protobuf, with inputs and attributes in the order of the operator."""

    def lower(g: Graph, **arguments: Any) -> Any:
        g.require_opset(_SINCE, _NO_FUNCTIONS)
        values = [value for value in arguments.values() if value is None or isinstance(value, Value)]
        others = [value for value in arguments.values() if not (value is None or isinstance(value, Value))]
        names = [*proto.attribute, *(attribute.name for attribute in proto.attribute_proto)]
        if len(others) > len(names):
            raise TypeError(
                f"{proto.domain}::{proto.name} has {len(names)} attributes, but got {len(others)}: give it one for each"
            )
        attributes = {f"{name}_{_suffix(value)}": value for name, value in zip(names, others, strict=False)}
        g.functions.add(proto.domain, proto.name, ir.serde.deserialize_function(proto))
        dtypes = [output.dtype for output in g.node.outputs if output is not None]
        return tuple(g.typed_op(proto.domain, proto.name, values, attributes, dtypes))

    lower.__module__, lower.__qualname__ = proto.domain, proto.name
    return lower


def _suffix(value: Any) -> str:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return "f" if isinstance(first, float) else "s" if isinstance(first, str) else "i"


class _Body(Graph):
    """`g` in the body of a function, where constants are nodes because a function has no initializers."""

    def __init__(self, outer: Graph) -> None:
        super().__init__(outer.opset)
        self.node = outer.node
        self.read = outer.read
        self.functions = outer.functions
        self._inputs: list[Value] = []
        self.bind_symbols(self._symbol_of_input)

    def input(self, name: str, outer: Value) -> Value:
        value = Value(ir.Value(name=self.new_name(name), type=outer.ir.type), outer.dtype, outer.shape)
        self._inputs.append(value)
        return value

    def initializer(self, name: str, data: ir.TensorProtocol, dtype: torch.dtype, shape: tuple[int, ...]) -> Value:
        constant = ir.node("Constant", [], {"value": ir.AttrTensor("value", data)})
        constant.outputs[0].name = name
        self.nodes.append(constant)
        return Value(constant.outputs[0], dtype, shape)

    def finished(self, domain: str, name: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> ir.Function:
        imports = {"": self.opset, **self.domains}
        returned = [
            self.op("Identity", output) if any(output.ir is value.ir for value in inputs) else output
            for output in outputs
        ]
        graph = ir.Graph(
            [value.ir for value in inputs], [value.ir for value in returned], nodes=self.nodes, opset_imports=imports
        )
        return ir.Function(domain, name, graph=graph, attributes=())

    def _symbol_of_input(self, name: str) -> SymbolSource[Value]:
        for value in self._inputs:
            for axis, size in enumerate(value.shape or ()):
                if isinstance(size, int):
                    continue
                offset, terms = size.node.expr.terms()
                if len(terms) == 1 and str(terms[0][0]) == name and terms[0][1] > 0:
                    return SymbolSource(value, axis, terms[0][1], offset)
        return self.unsupported(
            f"the size {name} is not that of an input of the local function: read it with g.op('Shape', x)"
        )
