"""Programs that look at values: what a tensor is for the example inputs, computed only when the program asks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from onnx_parity.exporter.capture.graph.graph import Block, Node, Origin, Primitive, Value, Varying
from onnx_parity.exporter.capture.graph.list_primitives import ON_VALUES
from onnx_parity.exporter.capture.graph.origin import OriginFinder
from onnx_parity.exporter.capture.replace.dispatch import without_keeping
from onnx_parity.exporter.errors import CaptureError, FrozenValueError, OnnxExporterWarning

if TYPE_CHECKING:
    from onnx_parity.exporter.capture.sizes.shape_env import HintedShapeEnv

__all__ = ["LoopValueError", "Reader", "TracerWarning", "outside_of_modes"]


_VIEWS = frozenset({torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.reshape.default})


class TracerWarning(OnnxExporterWarning):
    """The program looked at a value; the recording follows what the example input did."""


class LoopValueError(CaptureError):
    """The program looked at a value that a loop makes anew in each iteration."""


class Reader:
    """Reads values of a recording: warns, or refuses under `strict`, where what is read depends on an input."""

    def __init__(
        self,
        size_sources: dict[str, tuple[Value, int]],
        origins: OriginFinder,
        symbols: HintedShapeEnv | None,
        strict: bool,
    ) -> None:
        self._size_sources = size_sources
        self._origins = origins
        self._symbols = symbols
        self._strict = strict
        #: The tensors that the program is called with, by the inputs they are.
        self.examples: dict[Value, Any] = {}
        #: What has been computed: programs that ask once ask again, a detector dozens of times.
        self._known: dict[Value, Any] = {}
        #: Of each symbol that was read from a tensor of one int, that tensor.
        self.scalars: dict[str, Value] = {}
        #: What to warn of, once the recording is one that is kept.
        self.said: list[tuple[str, Origin]] = []
        #: Why the recording was given up. An exception that comes through TorchScript loses its type.
        self.refusal: CaptureError | None = None

    def read(self, values: Sequence[Value]) -> list[torch.Tensor]:
        """What values are for the example inputs."""
        self._refuse_inside(values)
        self._say_that_read(values)
        with outside_of_recording(), torch.no_grad():
            return [self._evaluate(value) for value in values]

    def read_symbol(self, name: str) -> int | float | None:
        """What a number that depends on values is for the example inputs; None if nothing is known of it."""
        if name in self.scalars:
            (scalar,) = self.read([self.scalars[name]])
            with outside_of_recording():
                number: int | float = scalar.item()
                return number
        if name in self._size_sources:
            value, axis = self._size_sources[name]
            return self.read([value])[0].shape[axis]
        return None

    def _say_that_read(self, values: Sequence[Value]) -> None:
        """Warn, or refuse, where a value that is now fixed depends on an input."""
        if any(self.depends_on_input(value) for value in values):
            origin = self._origins.find()
            where = f" at {origin.where}" if origin.where else ""
            text = (
                f"the program turned a tensor into a Python value{where}; the exported model has the example's value "
                "built in and will be wrong where another input gives another value. Keep it a tensor (torch.where, "
                "torch.cond), or script the function that reads it"
            )
            if self._strict:
                self.refusal = FrozenValueError(text)
                raise self.refusal
            self.said.append((text, origin))

    def warn(self) -> None:
        """Say what was read of values that depend on an input."""
        for text, origin in dict(self.said).items():
            warnings.warn_explicit(text, TracerWarning, origin.file or "<unknown>", origin.line)

    def _refuse_inside(self, values: Sequence[Value]) -> None:
        """What a loop hands to its next iteration is no one value."""
        for value in values:
            if any(source not in self.examples for source in self._sources(value)):
                where = self._origins.find().where
                self.refusal = LoopValueError(
                    f"the program turned a tensor into a Python value{f' at {where}' if where else ''}, inside of a "
                    "loop that is kept: it is another value in each iteration. Keep it a tensor"
                )
                raise self.refusal

    def depends_on_input(self, value: Value) -> bool:
        """Whether another input may give another value: not so of weights and of what is computed from them."""
        return next(self._sources(value), None) is not None

    def _sources(self, value: Value) -> Iterator[Value]:
        """The inputs, of the program or of a block, that a value is computed from."""
        seen: set[int] = set()
        pending = [value]
        while pending:
            value = pending.pop()
            if id(value) in seen or value.constant is not None:
                continue
            seen.add(id(value))
            if value.node is None:
                yield value
            else:
                pending.extend(value.node.inputs())
                for name in _symbols_given(value.node):
                    if self._symbols is not None and self._symbols.is_of_input(name):
                        yield next(iter(self.examples))
                    elif name in self._size_sources:
                        pending.append(self._size_sources[name][0])
                    elif name in self.scalars:
                        pending.append(self.scalars[name])
                    else:
                        # It is a size of an input.
                        yield next(iter(self.examples))

    def _evaluate(self, value: Value) -> torch.Tensor:
        """Compute a value from the example inputs: only what it needs, only when the program asks."""
        known = self._known
        known.update(self.examples)
        if value.node is not None:
            self._run(_nodes_behind(value, known), known)
        return _known(value, known)

    def _run(self, nodes: Sequence[Node], known: dict[Value, Any]) -> None:
        def real(argument: Any) -> Any:
            if isinstance(argument, Value):
                return _known(argument, known)
            if isinstance(argument, list):
                return [real(item) for item in argument]
            if isinstance(argument, Varying):
                return self._number(argument, known)
            return argument

        for node in nodes:
            arguments = {name: real(argument) for name, argument in node.arguments.items()}
            if node.op in _VIEWS and node.outputs[0] is not None:
                # Of a tensor without elements nobody could tell what a -1 stands for.
                arguments["size"] = [real(size) for size in node.outputs[0].shape]
            if isinstance(node.op, Primitive):
                results = self._run_primitive(node.op, arguments, known)
            else:
                result = node.op(**arguments)
                results = result if isinstance(result, (list, tuple)) else (result,)
            for output, tensor in zip(node.outputs, results, strict=True):
                if output is not None:
                    known[output] = tensor

    def _number(self, number: Varying, known: dict[Value, Any]) -> int | float:
        """A size, or a number that was read; in a loop, what it is in this iteration."""
        assert self._symbols is not None
        given: dict[Any, int | float] = {}
        for symbol in number.node.expr.free_symbols:
            name = str(symbol)
            if self.scalars.get(name) in known:
                given[symbol] = known[self.scalars[name]].item()
            elif name in self._size_sources and self._size_sources[name][0] in known:
                value, axis = self._size_sources[name]
                given[symbol] = known[value].shape[axis]
        return self._symbols.number_in_example(number, given)

    def _run_primitive(self, op: Primitive, arguments: dict[str, Any], known: dict[Value, Any]) -> Sequence[Any]:
        if op.name == "prim::If":
            block = arguments["then"] if arguments["condition"] else arguments["orelse"]
            return self._run_block(block, [], known)
        if op.name in ON_VALUES:
            given = ON_VALUES[op.name](**arguments)
            return given if isinstance(given, tuple) else (given,)
        state, block = list(arguments["initial"]), arguments["block"]
        if op.name == "higher_order::scan":
            returned: list[Any] = []
            for slices in zip(*arguments["over"], strict=True):
                returned.append(self._run_block(block, [*state, *slices], known))
                state = returned[-1][: len(state)]
            return [*state, *map(torch.stack, list(zip(*returned, strict=True))[len(state) :])]
        trips = arguments["trips"]
        collected: list[list[Any]] = [[] for _ in block.outputs[1 + len(state) :]]
        going, number = arguments["condition"], 0
        going = True if going is None else going
        while going and (trips is None or number < trips):
            going, *rest = self._run_block(block, [torch.tensor(number), torch.tensor(True), *state], known)
            state = rest[: len(state)]
            for items, item in zip(collected, rest[len(state) :], strict=True):
                items.append(item)
            number += 1
        return [*state, *map(torch.stack, collected)]

    def _run_block(self, block: Block, inputs: Sequence[Any], known: dict[Value, Any]) -> list[Any]:
        inside = {**known, **dict(zip(block.inputs, inputs, strict=True))}
        self._run(block.nodes, inside)
        return [_known(value, inside) for value in block.outputs]


def _known(value: Value, known: dict[Value, Any]) -> torch.Tensor:
    tensor: torch.Tensor = known[value] if value.constant is None else value.constant
    return tensor


def _symbols_given(node: Node) -> Iterator[str]:
    """The symbols among the arguments of a node."""
    for argument in node.arguments.values():
        for item in argument if isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(item, Varying):
                yield from map(str, item.node.expr.free_symbols)


def _nodes_behind(value: Value, known: Mapping[Value, Any]) -> list[Node]:
    """The nodes that a value is computed by, in order, from what is known."""
    done: dict[int, Node] = {}

    def is_missing(node: Node | None) -> bool:
        return node is not None and id(node) not in done and not any(output in known for output in node.outputs)

    pending = [value.node]
    while pending:
        node = pending.pop()
        if node is None or not is_missing(node):
            continue
        missing = [item.node for item in node.inputs() if is_missing(item.node)]
        if missing:
            pending += [node, *missing]
        else:
            done[id(node)] = node
    return list(done.values())


@contextmanager
def outside_of_recording() -> Iterator[None]:
    """Where operators compute. The program itself may ask (`if x.nonzero().shape[0] > 4:`), outside of any operator."""
    with outside_of_modes(), temporarily_clear_interpreter_stack(), without_keeping():
        yield


def outside_of_modes() -> AbstractContextManager[Any]:
    return torch.utils._python_dispatch._disable_current_modes()
