"""`g`: what a lowering writes the ONNX graph with.

    g.op("Elu", x, alpha_f=0.5)                      one output
    values, indices = g.op("TopK", x, k, outputs=2)  two

The interface is the one that symbolic functions of `torch.onnx` know: attributes carry their type as a suffix
(`_f` float, `_i` int, `_s` string, `_t` tensor, lists likewise), values answer `type().sizes()`. On top of it a Python
number may stand where a tensor is expected, and takes the dtype that the specification asks of it there.
The forms that differ between opsets are methods of `onnx_parity.exporter.lowering.opsets.Forms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.capture.graph.graph import Block, Node, operator_name
from onnx_parity.exporter.capture.graph.graph import Value as AtenValue
from onnx_parity.exporter.capture.record.autograd_functions import FunctionCall
from onnx_parity.exporter.dtypes import TENSOR_TYPES, TO_ONNX, result_dtype
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.custom.schema_check import check_call
from onnx_parity.exporter.lowering.opsets import Forms
from onnx_parity.exporter.lowering.schema.call_plans import Plan, plan_of
from onnx_parity.exporter.lowering.schema.compute_dtype import not_taken, runs
from onnx_parity.exporter.lowering.schema.signatures import Signature, is_known, signature
from onnx_parity.exporter.lowering.values.model_functions import Functions
from onnx_parity.exporter.lowering.values.shapes import broadcast
from onnx_parity.exporter.lowering.values.subgraph import Body
from onnx_parity.exporter.lowering.values.value import Number, Operand, Value

if TYPE_CHECKING:
    import sympy

__all__ = ["Graph"]

_ATTRIBUTE_TYPES = {
    "f": (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS),
    "i": (ir.AttributeType.INT, ir.AttributeType.INTS),
    "s": (ir.AttributeType.STRING, ir.AttributeType.STRINGS),
}

#: `onnx::Relu` is how torch.onnx spells ONNX's own out.
_ONNX_ITSELF = ("onnx", "ai.onnx")


class Graph(Forms):
    """The ONNX graph under construction, for one opset. Named `g` in lowerings."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[ir.Node] = []
        self.initializers: dict[str, ir.Value] = {}
        #: Domains besides ONNX's, and the version of each.
        self.domains: dict[str, int] = {}
        #: Versions of domains that the user asked for.
        self.versions: Mapping[str, int] = {}
        self.functions = Functions()
        #: Whether what is emitted is held to the operators' schemas: so it is where others write.
        self.is_checked = False
        #: The ATen node that is being lowered: its outputs tell the dtypes and shapes to produce.
        self.node: Node = None  # type: ignore[assignment]  # until there is one
        #: The ATen values that something reads.
        self.read: frozenset[AtenValue | None] = frozenset()
        #: Of values that were widened, or rounded from a wider one: that one, and the ATen node that it belongs to.
        self._wide: dict[tuple[ir.Value, torch.dtype], tuple[Node, Value]] = {}
        self._names: dict[str, int] = {}
        #: By what was said, and by what that comes to.
        self._constants: dict[tuple[Any, ...] | None, Value] = {}
        #: Sizes that have been computed, for all that comes later in the same body or in one within it.
        self.integers: dict[sympy.Expr, Value] = {}
        self._find_symbol: Callable[[str], tuple[Value, int | None]]
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
        if domain not in _ONNX_ITSELF and (domain or self._is_users_own(op_type)):
            operands = [self._plain(operand) for operand in inputs]
            # Nobody knows its types; whoever returns it from a lowering is told what they should be.
            dtypes = [operands[0].dtype if operands and operands[0] is not None else torch.float32] * outputs
            results = self.foreign(domain or self._namespace(), op_type, operands, attributes, dtypes)
        else:
            given = tuple([operand.dtype if isinstance(operand, Value) else None for operand in inputs])
            plan = plan_of(op_type, self.opset, given, outputs)
            operands = [
                self._operand(operand, dtype, plan, position)
                for position, (operand, dtype) in enumerate(zip(inputs, plan.inputs, strict=True))
            ]
            dtypes = [
                dtype or self._said_dtype(plan.signature, position, attributes)
                for position, dtype in enumerate(plan.outputs)
            ]
            results = self._emit("", op_type, operands, attributes, dtypes)
            if plan.is_pointwise:
                shape = broadcast(*[operand for operand in operands if operand is not None])
                for result in results:
                    result.shape = shape
            for position, wanted in enumerate(plan.narrowed):
                if wanted is not None:
                    results[position] = self._narrowed(results[position], wanted)
        return results[0] if outputs == 1 else tuple(results)

    def foreign(
        self,
        domain: str,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        dtypes: Sequence[torch.dtype],
        version: int | None = None,
    ) -> list[Value]:
        """An operator whose outputs have these dtypes, whatever ONNX knows of it."""
        if domain:
            self.domains[domain] = max(self.domains.get(domain, 1), version or 1)
        results = self._emit(domain, op_type, operands, attributes, dtypes)
        for result in results:
            result.is_foreign = True
        return results

    def _is_users_own(self, op_type: str) -> bool:
        """Whether a name without a domain means an operator of the user's: ONNX has none, and neither has ATen.

        That is how symbolic functions of custom operators name theirs, `g.op("Foo", x)`.
        """
        return self._namespace() not in ("", "aten") and not is_known(op_type)

    def _namespace(self) -> str:
        """That of the operator being lowered; of an autograd function, its module."""
        node: Node | None = self.node
        if node is None:
            return ""
        call = node.arguments.get("call")
        return call.function.__module__ if isinstance(call, FunctionCall) else operator_name(node.op).partition("::")[0]

    def has_kernel(self, op: str, dtype: torch.dtype, type_name: str = "T") -> bool:
        """Whether ONNX has the operator for the dtype at this opset, and onnxruntime runs it, maybe in a wider one."""
        return runs(op, dtype, self.opset, type_name)

    def _operand(self, operand: Operand | None, dtype: torch.dtype | None, plan: Plan, position: int) -> Value | None:
        if operand is None:
            return None
        if isinstance(operand, Value):
            return operand if dtype is None or operand.dtype is dtype else self._widened(operand, dtype)
        if dtype is None:
            raise TypeError(
                f"{plan.signature.op}: input {position} is the number {operand!r}, and no tensor beside it says its "
                "dtype"
            )
        return self.scalar(operand, dtype)

    def _widened(self, x: Value, dtype: torch.dtype) -> Value:
        node, wide = self._wide.get((x.ir, dtype), (None, x))
        if node is not self.node:
            wide = self.cast(x, dtype)
            self._wide[x.ir, dtype] = (self.node, wide)
        return wide

    def _narrowed(self, wide: Value, dtype: torch.dtype) -> Value:
        """A result that was computed in a wider dtype.

        Later steps of the same ATen operator go on from the wide value: like torch, they round once, at the end.
        Integers must not, since they wrap around in each step.
        """
        narrow = self.cast(wide, dtype)
        if dtype.is_floating_point:
            self._wide[narrow.ir, wide.dtype] = (self.node, wide)
        return narrow

    def _plain(self, operand: Operand | None) -> Value | None:
        return operand if operand is None or isinstance(operand, Value) else self.const(operand)

    def _said_dtype(self, sig: Signature, position: int, attributes: dict[str, Any]) -> torch.dtype:
        """The dtype of an output that an attribute says; float32, as ONNX has it, where none does."""
        dtype = torch.float32
        tensor = attributes.get("value_t")
        if tensor is not None:
            dtype = tensor.dtype
        for attribute in ("output_dtype_i", "dtype_i", "to_i"):
            if attributes.get(attribute) is not None:
                dtype = _torch_dtype(attributes[attribute])
        if dtype not in sig.allowed[sig.output_type(position)]:
            raise not_taken(sig, sig.output_type(position), dtype, self.opset)
        return dtype

    def _emit(
        self,
        domain: str,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        dtypes: Sequence[torch.dtype],
    ) -> list[Value]:
        given = [_attribute(key, item) for key, item in attributes.items() if item is not None]
        if self.is_checked:
            kinds = {attribute.name: attribute.type for attribute in given}
            version = (self.versions.get(domain) or self.domains.get(domain, 1)) if domain else self.opset
            check_call(op_type, domain, version, [operand is not None for operand in operands], kinds, len(dtypes))
        values = []
        results = []
        for dtype in dtypes:
            value = ir.Value(name=self.fresh(op_type), type=TENSOR_TYPES[dtype])
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
        """Add an operator whose results' dtypes its specification leaves open: a branch, a loop."""
        sig = signature(op_type, self.opset)
        for position, dtype in enumerate(dtypes):
            if dtype not in sig.allowed[sig.output_type(position)]:
                raise not_taken(sig, sig.output_type(position), dtype, self.opset)
        return self._emit("", op_type, operands, attributes, dtypes)

    # --- bodies of branches and loops -----------------------------------------------------------------------------

    @contextmanager
    def body(self) -> Iterator[Body]:
        """What is emitted inside goes into a body: `If`, `Loop` and `Scan` take its `graph` as an attribute."""
        outer, node, integers = self.nodes, self.node, self.integers
        self.nodes, self.integers = [], dict(integers)
        body = Body(self)
        try:
            yield body
            body.close(self.nodes)
        finally:
            self.nodes, self.node, self.integers = outer, node, integers

    def take_back(self, first: int) -> None:
        """Remove what was emitted from the node of that number on."""
        del self.nodes[first:]
        self.integers.clear()

    def lowered(self, block: Block, inputs: Sequence[Value], outputs: Sequence[AtenValue]) -> list[Value]:
        """The operators of a block, into the body that is open; these of its outputs."""
        return self._lower_block(block, inputs, outputs)

    def bind_blocks(self, lower: Callable[[Block, Sequence[Value], Sequence[AtenValue]], list[Value]]) -> None:
        """Say how the operators of a block are lowered."""
        self._lower_block = lower

    def fresh(self, stem: str) -> str:
        """A name that nothing in the graph has yet."""
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

    # --- constants ------------------------------------------------------------------------------------------------

    def const(self, value: Number | Sequence[Number] | torch.Tensor, dtype: torch.dtype | None = None) -> Value:
        """A constant. Equal ones share one tensor."""
        said = None if isinstance(value, torch.Tensor) else (repr(value), dtype)
        known = self._constants.get(said)
        if known is not None:
            return known
        tensor = value.to(dtype) if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype)
        tensor = tensor.detach()
        key = (tensor.dtype, tuple(tensor.shape), repr(tensor.tolist())) if tensor.numel() <= 64 else None
        known = self._constants.get(key)
        if known is None:
            known = self.initializer(self.fresh("const"), TorchTensor(tensor), tensor.dtype, tuple(tensor.shape))
            known.constant = tensor
        self._constants.update((each, known) for each in (said, key) if each is not None)
        return known

    def initializer(self, name: str, data: ir.TensorProtocol, dtype: torch.dtype, shape: tuple[int, ...]) -> Value:
        value = ir.Value(name=name, type=TENSOR_TYPES[dtype], shape=ir.Shape(shape), const_value=data)
        data.name = name
        self.initializers[name] = value
        return Value(value, dtype, shape)

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """`x` in another dtype; `x` itself where it has it already."""
        if x.dtype is dtype:
            return x
        if x.is_small and x.constant is not None:
            return self.const(x.constant, dtype)
        return self.op("Cast", x, to_i=TO_ONNX[dtype].value)

    def promote(self, *operands: Operand, dtype: torch.dtype | None = None) -> list[Value]:
        """The operands in the dtype that torch would compute them in; numbers become constants."""
        if dtype is None:
            dtype = self.result_type(*operands)
        return [
            self.cast(o, dtype) if isinstance(o, Value) else self.scalar(_wrapped(o, dtype), dtype) for o in operands
        ]

    def result_type(self, *operands: Operand) -> torch.dtype:
        tensors = [(o.dtype, o.rank) for o in operands if isinstance(o, Value)]
        return result_dtype(tensors, [o for o in operands if not isinstance(o, Value)])

    def scalar(self, number: Number, dtype: torch.dtype) -> Value:
        """A 0-d tensor of a Python number, of a size, or of a number that was read from a tensor."""
        if isinstance(number, torch.SymInt):
            if number.node.expr.is_Symbol:
                value, axis = self.symbol(str(number.node.expr))
                if axis is None and value.shape == ():
                    return self.cast(value, dtype)
            return self.cast(self.squeeze(self.ints([number]), [0]), dtype)
        if isinstance(number, torch.SymFloat):
            return self.cast(self.squeeze(self.real(number.node.expr), [0]), dtype)
        if isinstance(number, torch.SymBool):
            return self.cast(self.squeeze(self.truth(number.node.expr), [0]), dtype)
        return self.const(number, dtype)

    def bind_symbols(self, find: Callable[[str], tuple[Value, int | None]]) -> None:
        """Say where the size that a symbol stands for can be read: of which value, which axis."""
        self._find_symbol = find

    def symbol(self, name: str) -> tuple[Value, int | None]:
        return self._find_symbol(name)

    def unsupported(self, reason: str, since: int | None = None) -> NoReturn:
        """Refuse the operator being lowered: say what cannot be said, and the first opset that can."""
        raise Unsupported(reason, since)

    # --- what the operator must return ----------------------------------------------------------------------------

    @property
    def operator(self) -> str:
        """The name of the ATen operator being lowered, without its overload."""
        return operator_name(self.node.op)

    @property
    def out(self) -> AtenValue:
        """The first output of the ATen operator being lowered."""
        out = self.node.outputs[0]
        assert out is not None
        return out

    def is_used(self, output: int) -> bool:
        """Whether anything depends on that output of the ATen operator: what nobody reads need not be computed."""
        return self.node.outputs[output] in self.read


def _check_operands(name: object, inputs: Sequence[object]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"g.op was given {name!r} for an operator: give its name, g.op('Relu', x)")
    for number, operand in enumerate(inputs):
        if operand is not None and not isinstance(operand, Value | torch.Tensor | Number):
            raise TypeError(
                f"{name}: input {number} is {operand!r}: give a value of the graph, a number, a tensor, or None for "
                "what is left out"
            )


def _wrapped(number: Number, dtype: torch.dtype) -> Number:
    """What torch makes of a number beside tensors of integers that reach less far."""
    if type(number) is not int or dtype is torch.bool or dtype.is_floating_point or dtype.is_complex:
        return number
    return int(torch.tensor(number).to(dtype).item())


def _torch_dtype(onnx_value: int) -> torch.dtype:
    return next(dtype for dtype, onnx in TO_ONNX.items() if onnx.value == onnx_value)


def _attribute(key: str, item: Any) -> ir.Attr:
    name, _, suffix = key.rpartition("_")
    if suffix == "t" and name:
        tensor = item if isinstance(item, ir.TensorProtocol) else TorchTensor(item)
        return ir.Attr(name, ir.AttributeType.TENSOR, tensor)
    if suffix == "tp" and name:
        return ir.Attr(name, ir.AttributeType.TYPE_PROTO, item)
    if suffix == "g" and name:
        return ir.Attr(name, ir.AttributeType.GRAPH, item)
    if suffix not in _ATTRIBUTE_TYPES or not name:
        raise TypeError(f"attribute {key!r} says no type: end its name in _f, _i, _s or _t, as in alpha_f=0.5")
    one, many = _ATTRIBUTE_TYPES[suffix]
    convert = {"f": float, "i": int, "s": str}[suffix]
    if isinstance(item, (list, tuple, torch.Size)):
        return ir.Attr(name, many, tuple(convert(part) for part in item))
    return ir.Attr(name, one, convert(item))
