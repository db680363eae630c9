"""`g`, the builder with which lowerings write the ONNX graph.

    g.op("Elu", x, alpha_f=0.5)                      one output
    values, indices = g.op("TopK", x, k, outputs=2)  two

The interface is that of `torch.onnx`: the suffix of an attribute's name is its type (`_f` float, `_i` int, `_s` string,
`_t` tensor, and lists of them), and values have `type().sizes()`. In addition, an operand may be a Python number. It
gets the dtype that the operator's schema requires beside the other inputs. If the operator does not accept a dtype, or
onnxruntime has no kernel for it, the operator is computed in a wider dtype that has all of its values, and the result
is cast back. Differences between opsets are methods of `onnx_parity.exporter.lowering.opsets.Forms`; constants and
casts are in `onnx_parity.exporter.lowering.constants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TENSOR_TYPES, TO_ONNX
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.graph.graph import Block, Node, SymbolSource, operator_name
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.lowering.constants import Constants
from onnx_parity.exporter.lowering.schema.call_plans import CallPlan, call_plan
from onnx_parity.exporter.lowering.schema.compute_dtype import has_kernel, not_taken
from onnx_parity.exporter.lowering.schema.signatures import Signature, is_known, signature
from onnx_parity.exporter.lowering.values.attributes import attribute_of
from onnx_parity.exporter.lowering.values.model_functions import Functions
from onnx_parity.exporter.lowering.values.shapes import broadcast
from onnx_parity.exporter.lowering.values.subgraph import Body
from onnx_parity.exporter.lowering.values.value import Number, Operand, Value
from onnx_parity.exporter.recording.autograd_functions import FunctionCall

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression

__all__ = ["Graph"]

#: The domains of ONNX's own operators, which torch.onnx also writes as `onnx::Relu`.
_ONNX_DOMAINS = ("onnx", "ai.onnx")


class Graph(Constants):
    """The ONNX graph under construction at one opset, which is the argument `g` of lowerings."""

    def __init__(self, opset: int) -> None:
        super().__init__()
        self.opset = opset
        self.nodes: list[ir.Node] = []
        #: The versions of the domains that nodes have, except ONNX's.
        self.domains: dict[str, int] = {}
        #: The versions of domains that the user requested (`custom_opsets`).
        self.versions: Mapping[str, int] = {}
        self.functions = Functions()
        #: Whether nodes are checked against the operators' schemas, as they are in users' lowerings.
        self.is_checked = False
        #: The ATen node that is being lowered, whose outputs have the dtypes and shapes that must be returned.
        self.node: Node = None  # type: ignore[assignment]  # set before the first lowering is called
        #: The ATen values that other nodes or outputs use.
        self.read: frozenset[AtenValue | None] = frozenset()
        #: The dequantized weights of layers whose inputs are not quantized.
        self.lone_weights: frozenset[AtenValue] = frozenset()
        self.quantizes_per_channel = False
        #: For a value that was cast to a wider dtype, or from it: the wide value, and the ATen node that it was for.
        self._wide: dict[tuple[ir.Value, torch.dtype], tuple[Node, Value]] = {}
        self._names: dict[str, int] = {}
        #: The values of size expressions whose nodes are in this subgraph, or in one around it.
        self.known_numbers: dict[Expression, Value] = {}
        self.occupied: frozenset[Expression] = frozenset()
        self._find_symbol: Callable[[str], SymbolSource[Value]]
        self._lower_block: Callable[[Block, Sequence[Value], Sequence[AtenValue]], list[Value]]

    # --- operators ------------------------------------------------------------------------------------------------

    @overload
    def op(self, name: str, *inputs: Operand | None, outputs: Literal[1] = 1, **attributes: Any) -> Value: ...
    @overload
    def op(self, name: str, *inputs: Operand | None, outputs: int, **attributes: Any) -> tuple[Value, ...]: ...
    def op(self, name: str, *inputs: Operand | None, outputs: int = 1, **attributes: Any) -> Value | tuple[Value, ...]:
        """Add the operator `name` (`Elu`, or `my.domain::Foo`) and return its output, or its outputs as a tuple."""
        if self.is_checked:
            _check_operands(name, inputs)
        domain, _, op_type = name.rpartition("::")
        if domain not in _ONNX_DOMAINS and (domain or self._is_custom(op_type)):
            operands = [self._as_value(operand) for operand in inputs]
            # Its output dtypes are not known. If a lowering returns it, they are those of the ATen operator.
            dtypes = [operands[0].dtype if operands and operands[0] is not None else torch.float32] * outputs
            results = self.typed_op(domain or self._namespace(), op_type, operands, attributes, dtypes)
        else:
            given = tuple([operand.dtype if isinstance(operand, Value) else None for operand in inputs])
            plan = call_plan(op_type, self.opset, given, outputs)
            operands = [
                self._operand(operand, dtype, plan, position)
                for position, (operand, dtype) in enumerate(zip(inputs, plan.inputs, strict=True))
            ]
            dtypes = [
                dtype or self._dtype_from_attributes(plan.signature, position, attributes, operands)
                for position, dtype in enumerate(plan.outputs)
            ]
            results = self.add_node("", op_type, operands, attributes, dtypes)
            if plan.is_pointwise:
                shape = broadcast(*[operand for operand in operands if operand is not None])
                for result in results:
                    result.shape = shape
            for position, wanted in enumerate(plan.narrowed):
                if wanted is not None:
                    results[position] = self._narrowed(results[position], wanted)
        return results[0] if outputs == 1 else tuple(results)

    def typed_op(
        self,
        domain: str,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        dtypes: Sequence[torch.dtype],
        version: int | None = None,
    ) -> list[Value]:
        """Add an operator whose outputs have these dtypes, and return them. ONNX's schema of it is not consulted."""
        if domain:
            self.domains[domain] = max(self.domains.get(domain, 1), version or 1)
        results = self.add_node(domain, op_type, operands, attributes, dtypes)
        for result in results:
            result.has_assumed_dtype = True
        return results

    def _is_custom(self, op_type: str) -> bool:
        """Whether `g.op("Foo", x)`, without a domain, is an operator of the domain of the operator that is lowered.

        Symbolic functions of custom operators are written in this way. ONNX must not have an operator of that name.
        """
        return self._namespace() not in ("", "aten") and not is_known(op_type)

    def _namespace(self) -> str:
        """The namespace of the operator that is being lowered; for an autograd function, its module."""
        node: Node | None = self.node
        if node is None:
            return ""
        call = node.arguments.get("call")
        return call.function.__module__ if isinstance(call, FunctionCall) else operator_name(node.op).partition("::")[0]

    def has_kernel(self, op: str, dtype: torch.dtype, type_name: str = "T") -> bool:
        """Whether ONNX has the operator at this opset and onnxruntime a kernel, for the dtype or a wider one."""
        return has_kernel(op, dtype, self.opset, type_name)

    def _operand(
        self, operand: Operand | None, dtype: torch.dtype | None, plan: CallPlan, position: int
    ) -> Value | None:
        if operand is None:
            return None
        if isinstance(operand, Value):
            return operand if dtype is None or operand.dtype is dtype else self._widened(operand, dtype)
        if dtype is None:
            raise TypeError(
                f"{plan.signature.op}: input {position} is the number {operand!r}, whose dtype is not known because no "
                "other input is a tensor of that type: give g.const(number, dtype)"
            )
        return self.scalar(operand, dtype)

    def _widened(self, x: Value, dtype: torch.dtype) -> Value:
        node, wide = self._wide.get((x.ir, dtype), (None, x))
        if node is not self.node:
            wide = self.cast(x, dtype)
            self._wide[x.ir, dtype] = (self.node, wide)
        return wide

    def _narrowed(self, wide: Value, dtype: torch.dtype) -> Value:
        """The result of an operator that was computed in a wider dtype.

        The next operators of the same lowering use the wide value, so that floats are rounded once, as in torch.
        Integers are not, because they wrap around in each operator.
        """
        narrow = self.cast(wide, dtype)
        if dtype.is_floating_point:
            self._wide[narrow.ir, wide.dtype] = (self.node, wide)
        return narrow

    def _as_value(self, operand: Operand | None) -> Value | None:
        return operand if operand is None or isinstance(operand, Value) else self.const(operand)

    def _dtype_from_attributes(
        self, sig: Signature, position: int, attributes: dict[str, Any], operands: Sequence[Value | None]
    ) -> torch.dtype:
        """The dtype of an output that depends on an attribute. If that is missing, ONNX's default is float32, and that
        of the scale for DequantizeLinear."""
        scale = operands[1] if sig.op == "DequantizeLinear" else None
        dtype = torch.float32 if scale is None else scale.dtype
        tensor = attributes.get("value_t")
        if tensor is not None:
            dtype = tensor.dtype
        for attribute in ("output_dtype_i", "dtype_i", "to_i"):
            if attributes.get(attribute) is not None:
                dtype = _torch_dtype(attributes[attribute])
        if dtype not in sig.allowed[sig.output_type(position)]:
            raise not_taken(sig, sig.output_type(position), dtype, self.opset)
        return dtype

    def add_node(
        self,
        domain: str,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        dtypes: Sequence[torch.dtype],
    ) -> list[Value]:
        """Add a node without casts, and return its outputs, which have these dtypes."""
        given = [attribute_of(key, item) for key, item in attributes.items() if item is not None]
        if self.is_checked:
            from onnx_parity.exporter.lowering.custom.schema_check import check_call

            kinds = {attribute.name: attribute.type for attribute in given}
            version = (self.versions.get(domain) or self.domains.get(domain, 1)) if domain else self.opset
            check_call(op_type, domain, version, [operand is not None for operand in operands], kinds, len(dtypes))
        values = []
        results = []
        for dtype in dtypes:
            value = ir.Value(name=self.new_name(op_type), type=TENSOR_TYPES[dtype])
            values.append(value)
            results.append(Value(value, dtype, None))
        node = ir.Node(
            domain,
            op_type,
            [None if operand is None else operand.ir for operand in operands],
            given,
            outputs=values,
            name=f"node_{values[0].name}",
        )
        self.nodes.append(node)
        return results

    def emit(
        self, op_type: str, operands: Sequence[Value | None], dtypes: Sequence[torch.dtype], **attributes: Any
    ) -> list[Value]:
        """Add an operator whose output dtypes do not follow from its inputs: If, Loop, Scan."""
        sig = signature(op_type, self.opset)
        for position, dtype in enumerate(dtypes):
            if dtype not in sig.allowed[sig.output_type(position)]:
                raise not_taken(sig, sig.output_type(position), dtype, self.opset)
        return self.add_node("", op_type, operands, attributes, dtypes)

    # --- subgraphs and symbols ------------------------------------------------------------------------------------

    @contextmanager
    def body(self) -> Iterator[Body]:
        """A context in which added nodes go into a subgraph. If, Loop and Scan take its `graph` as an attribute."""
        outer, node, integers, wide = self.nodes, self.node, self.known_numbers, self._wide
        occupied = self.occupied
        self.nodes, self.known_numbers, self._wide = [], dict(integers), {}
        body = Body(self)
        try:
            yield body
            body.close(self.nodes)
        finally:
            self.nodes, self.node, self.known_numbers, self._wide = outer, node, integers, wide
            self.occupied = occupied

    def take_back(self, first: int) -> None:
        """Remove all nodes from that number on."""
        for node in self.nodes[first:]:
            _read_nothing(node)
        del self.nodes[first:]
        self.known_numbers.clear()

    def lowered(self, block: Block, inputs: Sequence[Value], outputs: Sequence[AtenValue]) -> list[Value]:
        """Lower the nodes of a block into the open subgraph, and return some of its outputs."""
        return self._lower_block(block, inputs, outputs)

    def bind_blocks(self, lower: Callable[[Block, Sequence[Value], Sequence[AtenValue]], list[Value]]) -> None:
        """Set the function that lowers the nodes of a block."""
        self._lower_block = lower

    def new_name(self, stem: str) -> str:
        """A name that nothing in the graph has yet, and that is reserved by this call."""
        count = self._names.get(stem)
        if count is None:
            self._names[stem] = 1
            return stem
        while True:
            name = f"{stem}_{count}"
            count += 1
            if name not in self._names:
                self._names[stem] = count
                self._names[name] = 1
                return name

    def bind_symbols(self, find: Callable[[str], SymbolSource[Value]]) -> None:
        """Set the function that finds the value that a symbol is read from, and how."""
        self._find_symbol = find

    def symbol(self, name: str) -> SymbolSource[Value]:
        """The value that the symbol is read from, and how."""
        return self._find_symbol(name)

    def unsupported(self, reason: str, since: int | None = None) -> NoReturn:
        """Refuse the operator that is being lowered; `since` is the first opset that can express it, if any."""
        raise Unsupported(reason, since)

    # --- the operator that is being lowered -----------------------------------------------------------------------

    @property
    def operator(self) -> str:
        """Its name without the overload: `aten::max`."""
        return operator_name(self.node.op)

    @property
    def out(self) -> AtenValue:
        """Its first output."""
        return self.output(0)

    def output(self, number: int) -> AtenValue:
        found = self.node.outputs[number]
        assert found is not None
        return found

    def is_used(self, output: int) -> bool:
        """Whether one of its outputs is used. Unused outputs need not be computed."""
        return self.node.outputs[output] in self.read


def _check_operands(name: object, inputs: Sequence[object]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"g.op got {name!r} as the name of an operator: give a string, g.op('Relu', x)")
    for number, operand in enumerate(inputs):
        if operand is not None and not isinstance(operand, Value | torch.Tensor | Number):
            raise TypeError(
                f"{name}: input {number} is {operand!r}: give a value of the graph, a number, a tensor, or None for an "
                "optional input that is left out"
            )


def _torch_dtype(onnx_value: int) -> torch.dtype:
    return next(dtype for dtype, onnx in TO_ONNX.items() if onnx.value == onnx_value)


def _read_nothing(node: ir.Node) -> None:
    """Let a node that is removed read nothing any more, so that what only it has read is seen to be unused."""
    node.resize_inputs(0)
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            for inner in attribute.as_graph():
                _read_nothing(inner)
