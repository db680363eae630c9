"""Programs that read values of tensors. The values are computed on demand, from the example inputs.

When a program reads a value (`if x.sum() > 0`), the part of the recording that the value depends on is computed from
the example inputs, and the program takes that branch. What was read so is noted in `reads`: it is an assumption of the
model, unless the program raises an error for the other value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.errors import CaptureError, FrozenValueError, OnnxExporterWarning
from onnx_parity.exporter.expressions.conditions import negated
from onnx_parity.exporter.expressions.expression import Expression, Plain
from onnx_parity.exporter.graph.block_primitives import LOOP
from onnx_parity.exporter.graph.decisions import Decision, Decisions, Reconsider
from onnx_parity.exporter.graph.graph import Block, Node, Origin, Size, Value, Varying, operator_name
from onnx_parity.exporter.graph.origin import OriginFinder
from onnx_parity.exporter.recording.evaluate import TensorInterpreter, nodes_behind, outside_of_recording
from onnx_parity.exporter.recording.frozen_sizes import FrozenSizes, SizesOfTrial, Trial, trial_with
from onnx_parity.exporter.recording.random_numbers import draws
from onnx_parity.exporter.recording.reads import OF_TEXTS, Altered, AskedAt, Read
from onnx_parity.exporter.torch_inside.bytecode import is_guard
from onnx_parity.exporter.torch_inside.code_objects import CodeType
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import (
    FrameType,
    current_frame,
    frames_of_user,
    program_frame,
    reads_or_writes_item,
    spelled_in,
)
from onnx_parity.exporter.torch_inside.loops.loops_of_python import test_of_call, test_of_loop
from onnx_parity.exporter.torch_inside.loops.structured_code import asked_at, function_of, is_added, to_the_end_of

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["MOST_LISTED", "OF_EXPERTS", "Reader", "TracerWarning"]

#: What to do about loops over the experts that are chosen.
OF_EXPERTS = (
    "If these are the experts of a model of transformers that can be set, call "
    "model.set_experts_implementation('grouped_mm')."
)
_LEAVES_KNOWN = (
    "the program leaves a loop of known length, or returns from it, by what a loop over a dynamic size within it has "
    "found: run all iterations, and choose with torch.where"
)
_INSIDE = (
    "the program turned a tensor into a Python value{}, inside a loop that is exported as a loop: its value changes "
    "from one iteration to the next. Keep it a tensor."
)
_SIZE_INSIDE = (
    "what the program computes{} depends on a number or a size that changes from one iteration to the next of a loop "
    "that is exported as a loop, as that of x[i : i + 1] does where x may have fewer rows than there are iterations: "
    "give axes that have always the same size one name, as Dim('rows'), and take single items as x[i]. Compute with "
    "tensors instead of numbers that items of a tensor give."
)
#: Numbers of longer lists do not become symbols. They are no sizes, and 1,600 symbols take five seconds.
MOST_LISTED = 1024


class TracerWarning(OnnxExporterWarning):
    """The program read a value of a tensor, and the exported model has the example's value as a constant."""


class Reader:
    """Computes values of a recording. Warns if a value depends on an input, or raises an error if `strict`."""

    def __init__(
        self,
        size_sources: dict[str, tuple[Value, int]],
        origins: OriginFinder,
        symbols: Symbols | None,
        strict: bool,
        decisions: Decisions,
    ) -> None:
        self._size_sources = size_sources
        self._origins = origins
        self._symbols = symbols
        self._strict = strict
        #: Whether numbers that depend on inputs are taken from the example and become constants, instead of symbols.
        self._freezes = Decision.NUMBERS_OF_EXAMPLE in decisions
        #: The whole numbers that were read and depend on the values of inputs, in the order in which they were read.
        self._frozen: dict[Value, Sequence[int]] = {}
        #: The numbers of splits, in the order of the calls, whose sizes only happen to be numbers that were read.
        self.coincidences: Collection[int] = ()
        self.trial: Trial | None = None
        self._splits = 0
        #: The example arguments, by the inputs of the graph.
        self.examples: dict[Value, Any] = {}
        #: Values that have been computed. They are kept because some programs, such as detectors, read dozens.
        self._known: dict[Value, Any] = {}
        self._not_random: set[Value] = set()
        #: For each symbol of a number that was read from a tensor, that tensor.
        self.scalars: dict[str, Value] = {}
        #: The questions about numbers that were decided, each with where that is noted and the answer.
        self._decided: dict[Expression, tuple[Read, bool]] = {}
        #: What became a constant of the model. It is warned of only if this recording is not made again.
        self.reads: list[Read] = []
        #: The read that gives another value, to see what the program does then.
        self.altered: Altered | None = None
        #: The code of ours that calls the program.
        self.outermost: CodeType | None = None
        #: Where the program first made a text of a tensor or of a symbolic number, which is not that of the example.
        self.text: Origin | None = None
        #: The names of the dynamic sizes that such numbers are computed from.
        self.sizes_in_texts: set[str] = set()
        #: The bodies of loops of Python that run now, the innermost last, which decide what differs between iterations.
        self.bodies: list[Any] = []
        #: Whether the program has left one of them that has branches, as with an error.
        self.left_a_branch = False
        #: Whether there are loops of Python in the model.
        self.has_loops = False
        #: The functions whose code is written down otherwise, so that what branches on their results has paths that are
        #: joined, and the places where it does; None where no code is to be.
        self.structured: frozenset[str] | None = None
        #: The questions on sizes of which both sides are recorded there, and the places of those on values.
        self.joined: frozenset[Expression] = frozenset()
        self.joined_at: frozenset[AskedAt] = frozenset()
        #: The truth values of branches on values that have both sides, as far as these do not differ within loops.
        self.conditions: list[Value] = []
        #: The globals and the attributes of classes that the program names, each with what has it.
        self.globals_named: Sequence[tuple[Mapping[str, Any], str]] = ()
        self.changes: Callable[[], Mapping[Any, int]] = dict  # What is now where it has changed its objects.
        self._interpreter = TensorInterpreter(self._number)
        #: The error that ended the recording. It is stored here because TorchScript changes the types of exceptions.
        self.refusal: CaptureError | None = None

    @property
    def failed_at_altered(self) -> bool:
        """Whether the program decided nothing by values after the read that gives another one. If it failed, it was
        because of it."""
        return self.altered is not None and not any(
            each.answer is not None for each in self.reads[self.altered.read + 1 :]
        )

    def decided(self, answer: Plain, spelled: str, question: Expression, is_asked_by_torch: bool) -> Plain:
        """The answer to a question about the number that was read last, or a number that is computed from it; `spelled`
        is how the question is to be said, if it is not one of the user's code."""
        if not self.reads or self.reads[-1].is_random:
            return answer
        read, altered = self.reads[-1], self._altered_here
        if not isinstance(answer, bool):
            return answer if altered is None else altered.number(answer)
        read.answer, read.spelled, read.is_asked_by_torch = answer, spelled or read.spelled, is_asked_by_torch
        read.holding = question if answer else negated(question)
        self._decided[question] = read, answer != (altered is not None)
        return self._decided[question][1]

    def decided_before(self, question: Expression) -> Plain | None:
        """The answer that was given to a question about numbers, if it was asked before, and counts here."""
        read, answer = self._decided.get(question, (None, None))
        return answer if read in self.reads else None

    @property
    def _altered_here(self) -> Altered | None:
        """The other value, if it is for the last read."""
        is_here = self.altered is not None and self.altered.read == len(self.reads) - 1
        return self.altered if is_here else None

    def text_of(
        self, text: str, sizes: Collection[str] = (), with_sizes: Callable[[Mapping[str, int]], str] = str
    ) -> str:
        """A text of a tensor or of a symbolic number, which the results may not depend on. That of a number follows
        from dynamic sizes of these names."""
        self.text = self.text or self._origins.find()
        self.sizes_in_texts.update(sizes)
        altered = self.altered
        if altered is None or altered.read != OF_TEXTS:
            return text
        # Another text may be printed too, and is to look the same.
        return with_sizes(dict(altered.sizes)) if altered.sizes and sizes else f"{text}\N{ZERO WIDTH SPACE}"

    def read(self, values: Sequence[Value]) -> list[torch.Tensor]:
        """The tensors of values for the example inputs. Those without data are refused, for nothing can be read."""
        return [self.with_data(tensor) for tensor in self._tensors(values)]

    def answer(self, values: Sequence[Value], ask: Callable[[Sequence[torch.Tensor]], bool]) -> bool:
        """The answer to a question about values, such as `torch.equal`, for the example inputs."""
        before = len(self.reads)
        answer = ask([self.with_data(tensor) for tensor in self._tensors(values, altering=False)])
        if len(self.reads) == before:
            return answer
        self._answered(self.reads[-1], answer)
        return answer != (self._altered_here is not None)

    def _answered(self, read: Read, answer: bool) -> None:
        read.answer = answer
        read.is_guard = self.outermost is not None and is_guard(current_frame(), answer, self.outermost)

    def with_data(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, unless it has no data to read."""
        if isinstance(tensor, FakeTensor) or tensor.is_meta:
            self.refusal = CaptureError(
                f"the program reads the value of a tensor{self._origins.find().placed} that has no data, because this "
                "tensor, or an input or weight that it depends on, is fake or on the meta device\n"
                "Export the program with inputs and weights that have values."
            )
            raise self.refusal
        return tensor

    def _tensors(
        self, values: Sequence[Value], *, of_symbol: bool = False, altering: bool = True
    ) -> list[torch.Tensor]:
        self._refuse_inside(values, of_symbol)
        read = self._note_read(values, is_within=of_symbol)
        with outside_of_recording(), torch.no_grad():
            tensors = [self._as_in_trial(value, self._evaluate(value)) for value in values]
            if read is not None:
                read.keep(tensors)
                if read.answer is not None:
                    self._answered(read, read.answer)
                if self._altered_here is not None and altering and not of_symbol:
                    return [self._altered_here.tensor(each, number) for number, each in enumerate(tensors, 1)]
        return tensors

    def _as_in_trial(self, value: Value, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, whose numbers are noted if they depend on inputs; in a trial it has other numbers."""
        if not self._is_frozen_count(value):
            return tensor
        if value not in self._frozen:
            before = sum(map(len, self._frozen.values()))
            numbers = tensor.reshape(-1).tolist() if self.trial is None else self.trial.numbers[before:]
            self._frozen[value] = numbers[: tensor.numel()]
        if self.trial is None or len(self._frozen[value]) < tensor.numel():
            return tensor
        return torch.tensor(self._frozen[value], dtype=tensor.dtype).reshape(tensor.shape)

    def read_symbol(self, name: str) -> int | float | None:
        """The value of a symbol for the example inputs; None for an unknown symbol."""
        if name in self.scalars:
            scalar = self.with_data(*self._tensors([self.scalars[name]], of_symbol=True))
            with outside_of_recording():
                number: int | float = scalar.item()
                return number
        if name in self._size_sources:
            value, axis = self._size_sources[name]
            return self._tensors([value], of_symbol=True)[0].shape[axis]
        return None

    def _is_frozen_count(self, value: Value) -> bool:
        whole = not value.dtype.is_floating_point and value.dtype is not torch.bool
        return whole and next(self._inputs_behind(value), None) is not None

    def stays_symbolic(self, value: Value) -> bool:
        """Whether a number that is read becomes a symbol. Booleans do not, because Python branches on them at once, but
        for `x[flag]`, where a recording with symbols uses the flag as a mask and does not read it."""
        is_flag = value.dtype is torch.bool
        if self._freezes or not self.depends_on_input(value):
            return False
        if self._symbols is None and (not is_flag or reads_or_writes_item(program_frame(current_frame()))):
            self.refusal = Reconsider(Decision.SYMBOLS)
            raise self.refusal
        return not is_flag

    def refuse_frozen_sizes(self, op: OpOverload, sizes: Sequence[Size]) -> None:
        """Refuse to split a tensor into parts of the sizes that were read from values, which differ for others."""
        if len(sizes) < 2 or not all(isinstance(size, int) for size in sizes):
            return
        number, self._splits = self._splits, self._splits + 1
        if self.trial is not None and number == self.trial.split:
            self.refusal = SizesOfTrial(sizes)
            raise self.refusal
        read = [number for numbers in self._frozen.values() for number in numbers]
        places = [at for at in range(len(read)) if [*sizes] == read[at : at + len(sizes)]]
        if not places or number in self.coincidences or self.trial is not None:
            return
        origin = self._origins.find()
        whole = [int(size) for size in sizes]
        self.refusal = FrozenSizes(
            f"{operator_name(op)} cannot be exported{origin.placed}: it splits a tensor into parts of {whole}, "
            "numbers that the program read from values and that other inputs change\n"
            "Read them with item(), or with tolist() from a tensor of known sizes, and compute with them without "
            "numpy and branches: then the sizes of the parts depend on values in the model too.",
            whole,
            trial_with(read, places, whole, number),
        )
        raise self.refusal

    def _note_read(self, values: Sequence[Value], *, is_within: bool) -> Read | None:
        """Note values that depend on an input, or are random, and become constants; refuse them if `strict`, unless
        they may turn out to make no difference."""
        is_random = False
        if any(self.depends_on_input(value) for value in values):
            known, fails = "example's value", "will be wrong if another input gives another value"
        elif any(map(self._is_random, values)):
            known, fails, is_random = "random value of this export", "draws no other one", True
        else:
            return None
        origin = self._origins.find()
        text = (
            f"the program turned a tensor into a Python value{origin.placed}; the exported model has the {known} as a "
            f"constant and {fails}. Keep it a tensor (torch.where, torch.cond), or script the function that reads it"
        )
        if self._strict and (is_random or self._symbols is None):
            self.refusal = FrozenValueError(text)
            raise self.refusal
        sources = [source for value in values for source in self._inputs_behind(value)]
        frame = program_frame(current_frame())
        spelled = "" if self._origins.step is not None else spelled_in(frame)
        ends_loop = frame is not None and not is_random and (test_of_loop(frame) or test_of_call(frame)) is not None
        asked_at = AskedAt.of(frame) if frame is not None else None
        self.reads.append(Read(origin, text, spelled, sources, is_random, values, is_within, ends_loop, asked_at))
        return self.reads[-1]

    def _inputs_behind(self, value: Value) -> Iterator[Value]:
        """The inputs whose values, and not only whose sizes, a value is computed from."""
        return (source for source in self._sources(value, of_sizes=False) if source in self.examples)

    def _is_random(self, value: Value) -> bool:
        """Whether a value depends on random numbers. Those that do not are remembered: loops read such in each turn."""
        seen, pending = set(self._not_random), [value]
        while pending:
            value = pending.pop()
            if value.node is None or value in seen:
                continue
            if isinstance(value.node.op, OpOverload) and draws(value.node.op, value.node.arguments):
                return True
            seen.add(value)
            pending.extend(value.node.inputs())
        self._not_random = seen
        return False

    def _refuse_inside(self, values: Sequence[Value], of_symbol: bool) -> None:
        """Refuse values that a loop carries from one iteration to the next, since they differ between iterations."""
        if any(map(self.is_inside, values)):
            placed = self._origins.find().placed
            refused = f"{_SIZE_INSIDE.format(placed)}" if of_symbol else f"{_INSIDE.format(placed)} {OF_EXPERTS}"
            # No decision helps: a number that changes in each iteration cannot become a constant.
            self.refusal = Reconsider(Decision.FIRST_ITERATIONS, refusal=CaptureError(refused))
            raise self.refusal

    def decided_within(self, value: Value, tensor: torch.Tensor, of_sizes: Expression | None) -> bool | None:
        """The truth value that the body of a loop takes for one that differs between iterations, or that is a condition
        `of_sizes` for one that is joined; None for others."""
        if value.dtype is not torch.bool:
            return None
        if not self.bodies or self.bodies[-1].is_of_function:
            frame = program_frame(current_frame(1))
            if self.joined and frame is not None and of_sizes is not None:
                return self.decided_on_paths(frame, of_sizes, tensor)
            return self.decided_behind([value], frame, tensor)
        frame = program_frame(current_frame(1))
        if not self.is_inside(value) and not self.is_joined([value], frame):
            return None
        decided: bool = self.bodies[-1].decide(frame, tensor)
        return decided

    def decided_on_paths(
        self, frame: FrameType, question: Expression, tensor: torch.Tensor | None = None
    ) -> bool | None:
        """The answer to a question of a frame on sizes, of which the model is to have both sides, on the path that the
        program runs on now; None where it has none. The program may have a tensor for it."""
        assert self._symbols is not None
        if not self.bodies:
            self._follow_paths_of(frame)
            return None
        if not self.bodies[-1].is_of_function:
            return None
        known = self._symbols.known_here(question)
        if known is not None:
            return known
        return bool(self.bodies[-1].decide(frame, question if tensor is None else tensor, question))

    def decided_behind(self, values: Sequence[Value], frame: FrameType | None, question: Any) -> bool | None:
        """The answer to a question of a frame on what loops have computed, or one of which the model is to have both
        sides, on the path on which the statements with it run now; None of a question about something else."""
        is_joined = self.is_joined(values, frame)
        if not is_joined and (not self.has_loops or self.structured is None or not any(map(self._is_of_loop, values))):
            return None
        if self.bodies:
            decided: bool = self.bodies[-1].decide(frame, question)
            return decided
        if frame is None or self.structured is None:
            return None
        if is_joined:
            callers = islice(frames_of_user(frame, self.outermost), 5) if self.outermost is not None else ()
            for keys in ([function_of(frame)], [to_the_end_of(frame)], *map(asked_at, callers)):
                self._follow_paths_of(frame, keys)
            return None
        if function_of(frame) in self.structured and is_added(frame):
            self.refusal = CaptureError(_LEAVES_KNOWN + self._origins.find().in_brackets)
            raise self.refusal
        self._follow_paths_of(frame)
        return None

    def holds_in_example(self, value: Value) -> bool:
        """Whether a truth value is True for the example inputs."""
        with outside_of_recording(), torch.no_grad():
            return bool(self._evaluate(value))

    def is_joined(self, values: Sequence[Value], frame: FrameType | None) -> bool:
        """Whether a frame asks about values at a place of which the model is to have both sides."""
        is_there = bool(self.joined_at) and frame is not None and AskedAt.of(frame) in self.joined_at
        return is_there and any(map(self.depends_on_input, values))

    def _follow_paths_of(self, frame: FrameType, keys: Sequence[str] = ()) -> None:
        """Have the function of a frame, or what these keys are of, written down with paths, unless it was."""
        keys = keys or [function_of(frame)]
        if self.structured is not None and not self.structured.issuperset(keys):
            self.refusal = Reconsider(Decision.PATHS, structured=keys)
            raise self.refusal

    def _is_of_loop(self, value: Value) -> bool:
        """Whether a value is computed from what a loop has computed."""
        seen: set[int] = set()
        pending = [value]
        while pending:
            value = pending.pop()
            if id(value) in seen or value.node is None:
                continue
            if value.node.op is LOOP:
                return True
            seen.add(id(value))
            pending.extend(value.node.inputs())
        return False

    def is_inside(self, value: Value) -> bool:
        """Whether a value is computed from what a loop carries from one iteration to the next."""
        return any(source not in self.examples for source in self._sources(value))

    def depends_on_input(self, value: Value) -> bool:
        """Whether a value depends on an input. Values that are computed from weights alone do not."""
        return next(self._sources(value), None) is not None

    def _sources(self, value: Value, *, of_sizes: bool = True) -> Iterator[Value]:
        """The inputs, of the program or of a block, that a value is computed from; with `of_sizes` also where only
        sizes of them are used."""
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
                for name in self._symbols_given(value.node):
                    if name in self.scalars:
                        pending.append(self.scalars[name])
                    elif not of_sizes:
                        continue
                    elif name in self._size_sources and not self._is_of_input(name):
                        pending.append(self._size_sources[name][0])
                    else:
                        # It is a size of an input.
                        yield next(iter(self.examples))

    def _symbols_given(self, node: Node) -> Iterator[str]:
        """The symbols among the arguments of a node, and those in its blocks that are not read there."""
        for argument in node.arguments.values():
            for item in argument if isinstance(argument, (list, tuple)) else (argument,):
                if isinstance(item, Varying):
                    yield from map(str, item.node.expr.free_symbols)
                elif isinstance(item, Block):
                    made = {*item.inputs, *(output for inner in item.nodes for output in inner.outputs)}
                    names = {name for inner in item.nodes for name in self._symbols_given(inner)}
                    yield from (name for name in sorted(names) if self._source_of(name) not in made)

    def _source_of(self, name: str) -> Value | None:
        """What a number, or a size that is not known before, is read from."""
        return self.scalars.get(name) or self._size_sources.get(name, (None,))[0]

    def _is_of_input(self, name: str) -> bool:
        return self._symbols is not None and self._symbols.is_of_input(name)

    def _evaluate(self, value: Value) -> torch.Tensor:
        """Compute a value from the example inputs, with only the nodes that it depends on."""
        known = self._known
        known.update(self.examples)
        if value.node is not None:
            self._interpreter.run(nodes_behind(value, known), known)
        tensor: torch.Tensor = self._interpreter.value(value, known)
        return tensor

    def _number(self, number: Varying, known: Mapping[Value, Any]) -> int | float:
        """The value of a symbolic size or number; in a loop, its value in this iteration."""
        assert self._symbols is not None
        given: dict[Any, int | float] = {}
        for symbol in number.node.expr.free_symbols:
            name = str(symbol)
            value, axis = (
                (self.scalars[name], None) if name in self.scalars else self._size_sources.get(name, (None, 0))
            )
            if value is None or self._is_of_input(name) or (value not in known and self.is_inside(value)):
                continue
            # The program does not read it here: what it reads is computed from it.
            tensor = known[value] if value in known else self._evaluate(value)
            given[symbol] = tensor.item() if axis is None else tensor.shape[axis]
        return self._symbols.number_in_example(number, given)
