"""Writes in place that a model would lose: to tensors that the program owns, and to tensors of the same memory.

`contiguous` and `reshape` return a copy or, for some sizes, the memory of what they are given. The model has a copy.

A script may return a tensor as it was given or a new one, depending on values. The model computes what it returns as a
value of its own, so a write in place to one of the two, after the script, would not be seen in the other.

The result of a branch may lie in memory in one way or in another, depending on values. What `contiguous` and `reshape`
return of it is, for some values, a copy.

Inputs may lie otherwise than in the example. Where the program asks how an input lies, or what is computed from one, or
writes to what `contiguous` or `reshape` made of it, what it does may depend on that, which inputs of a model do not
have: `tracing/layouts_of_inputs.py` finds out whether it does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from msgspec.structs import replace

from onnx_parity.exporter.dispatch.composites import sparse_tensor_used
from onnx_parity.exporter.dispatch.functional import inside_of_gradients, unwrapped
from onnx_parity.exporter.dispatch.gradients import is_transformed
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import Node, Origin, Value, operator_name
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.graph.reads import is_read, views_of
from onnx_parity.exporter.kinds.quantized import Quantized
from onnx_parity.exporter.recording.fakes.fake_mode import expressions
from onnx_parity.exporter.recording.fakes.written_layouts import WrittenLayouts
from onnx_parity.exporter.sizes.copies import copy_or_view
from onnx_parity.exporter.sizes.layouts import order_of
from onnx_parity.exporter.torch_inside.bytecode import errors_are_caught
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.frames import current_frame
from onnx_parity.exporter.torch_inside.tensors import identity_of_memory, memory_of_constant, overlap
from onnx_parity.exporter.torch_inside.transforms import inside_before_writes, is_functionaltensor, number_of_writes

__all__ = [
    "Decided",
    "LayoutsAsked",
    "MayBeOne",
    "TensorThen",
    "UnclearLayouts",
    "forget_layouts",
    "own_tensor_written",
    "refuse_lost_write",
    "refuse_shared_memory",
    "without_memory",
]

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.recorder import Recorder

#: Operators whose results do not lie in memory as their arguments do.
_LAID_OUT_ANEW = frozenset(f"aten::{name}" for name in ("addmm", "baddbmm", "bmm", "linear", "matmul", "mm", "mv"))
#: Decisions with which it matters how a tensor lies that the program has written to.
_OF_WRITTEN = frozenset({Decision.LAYOUTS_OF_WRITTEN, Decision.LAYOUTS_OF_KERNELS})


def own_tensor_written(origin: Origin, name: str = "") -> Reconsider:
    """What to raise if the program writes to a tensor that it owns, or to one computed from such tensors alone."""
    what = f"{name!r}, which" if name else "a tensor that"
    refusal = CaptureError(
        f"the program writes in place{origin.placed} to {what} is neither created in it nor an input or buffer. "
        "Register that tensor with register_buffer, or write to a copy of it."
    )
    return Reconsider(Decision.WRAP_OWN_TENSORS, refusal=refusal)


def without_memory(tensor: torch.Tensor) -> CaptureError:
    """What to raise if the program uses a tensor as a whole whose memory is that of the tensors that it holds."""
    if tensor.layout is not torch.strided:
        return sparse_tensor_used(tensor)
    return refused_here(
        f"a tensor of the class {type(tensor).__name__} is used as a whole, and it has no memory of its own: use the "
        "tensors that it holds"
    )


class TensorThen(msgspec.Struct, eq=False):
    """A tensor of the program when a script returned: how often its memory had been written to, and its value."""

    tensor: torch.Tensor
    writes: int
    value: Value
    #: The last node when it was written to again; None if it was not, or there was none.
    written_at: Node | None = None
    is_written: bool = False

    @classmethod
    def of(cls, tensor: torch.Tensor, value: Value) -> TensorThen:
        return cls(tensor, number_of_writes(tensor), value)

    def written(self, at: Node | None) -> TensorThen:
        return replace(self, written_at=at, is_written=True)

    def note(self, last: Node | None) -> None:
        if not self.is_written and number_of_writes(self.tensor) > self.writes:
            self.written_at, self.is_written = last, True


class MayBeOne(msgspec.Struct, frozen=True, eq=False):
    """Two tensors that may be one, and the line of the call."""

    tensors: tuple[TensorThen, TensorThen]
    origin: Origin
    #: Whether several elements of the first are one in memory, so that they are in the second too.
    has_repeated: bool = False

    def note(self, last: Node | None) -> None:
        """Note which of them has been written to, after the last node."""
        for each in self.tensors:
            each.note(last)


def watch_copies(recorder: Recorder, made: torch.Tensor, sources: Iterable[torch.Tensor]) -> None:
    """Watch a tensor, or a list, that has copies of what the program has as one with the sources: a write to one of
    these is refused if the other is read afterwards. So is one to what a source may be one with."""

    def then(tensor: torch.Tensor) -> TensorThen:
        inside = inside_of_gradients(tensor)
        return TensorThen.of(inside, recorder.value_of(unwrapped(inside)))

    copy = then(made)
    others: dict[Value, TensorThen] = {}
    for source in map(then, sources):
        others[source.value] = source
        for pair in recorder.may_be_one:
            for one, other in (pair.tensors, pair.tensors[::-1]):
                if one.value is source.value and other.value is not copy.value:
                    others.setdefault(other.value, other)
    recorder.may_be_one += [MayBeOne((copy, then(each.tensor)), recorder.origins.find()) for each in others.values()]


class UnclearLayouts:
    """The values of a recording that lie in memory in several ways, depending on values: results of branches and of
    loops, and what is computed from them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._values: set[Value] = set()

    def add(self, value: Value) -> None:
        self._values.add(value)

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of the program, or of the recorder, is one of them."""
        if not self._values or not self._recorder.knows(known := unwrapped(inside_of_gradients(tensor))):
            return False
        waiting, seen = [self._recorder.value_of(known)], set()
        while waiting:
            value = waiting.pop()
            if value in self._values:
                return True
            if value in seen or value.node is None or not isinstance(value.node.op, OpOverload):
                continue
            seen.add(value)
            if not _is_laid_out_anew(value.node):
                waiting += value.node.inputs()
        return False

    def refuse(self, tensor: torch.Tensor) -> None:
        """Refuse what the program asks of such a tensor."""
        if self.has(tensor):
            raise refused_here(
                "the program asks how a tensor lies in memory, which depends on the branch that has run, or on whether "
                "a loop has: let each of them give a tensor of the same strides, for example by clone(memory_format="
                "torch.contiguous_format)"
            )

    def copied(self, given: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """What `contiguous` or `reshape` made of such a tensor: always a copy, of which a write to one of the two is
        refused if the other is read afterwards."""
        if identity_of_memory(inside_of_gradients(given)) == identity_of_memory(inside_of_gradients(result)):
            result = result.clone()
        recorder = self._recorder
        both = [inside_of_gradients(each) for each in (given, result)]
        one, other = (TensorThen.of(each, recorder.value_of(unwrapped(each))) for each in both)
        has_repeated = 0 in expressions(given.stride())
        recorder.may_be_one.append(MayBeOne((one, other), recorder.origins.find(), has_repeated))
        return result


def _comes_from_inputs(value: Value) -> bool:
    """Whether a value may lie in memory as an input of the model does, from which it is computed: a copy that is
    contiguous here may be none where that lies otherwise."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if value.node is None:
            if value.constant is None:
                return True
        elif not isinstance(value.node.op, OpOverload):
            return True
        elif value not in seen and not _is_laid_out_anew(value.node):
            waiting += value.node.inputs()
        seen.add(value)
    return False


def _is_laid_out_anew(node: Node) -> bool:
    name = operator_name(node.op)
    is_contiguous_copy = name == "aten::clone" and node.arguments.get("memory_format") is torch.contiguous_format
    return is_contiguous_copy or name in _LAID_OUT_ANEW


def forget_layouts(nodes: Iterable[Node]) -> None:
    """In which format a decomposition copies may depend on how its input lies, which another one may do otherwise."""
    for node in nodes:
        if operator_name(node.op) == "aten::clone" and "memory_format" in node.arguments:
            node.arguments["memory_format"] = torch.preserve_format


class Made(msgspec.Struct, frozen=True, eq=False):
    """A tensor, and what `contiguous` or `reshape` made of it: a copy, or another tensor of the same memory."""

    tensors: tuple[TensorThen, TensorThen]
    is_copy: bool
    #: The condition on sizes with which it is none; None if that does not depend on them, as far as is known.
    condition: Any
    #: Whether it may be the tensor itself, which `is` tells from another one of its memory.
    may_be_itself: bool
    #: Whether torch guesses the memory format by the strides, for which there is no condition.
    is_guessed: bool

    @property
    def ends(self) -> set[int]:
        """The identities of the two tensors."""
        return {id(each.tensor) for each in self.tensors}

    @property
    def is_written(self) -> bool:
        return any(number_of_writes(each.tensor) > each.writes for each in self.tensors)

    def is_lost(self, nodes: Sequence[Node], outputs: Iterable[Value]) -> bool:
        """Whether one of the two has been written to since, and the other has been read since; or whether several
        elements of the tensor are one, and there was a write to the copy."""
        if not self.is_copy or not self.is_written:
            return False
        tensor, copy = self.tensors
        if 0 in expressions(tensor.tensor.stride()) and number_of_writes(copy.tensor) > copy.writes:
            return True
        return any(
            number_of_writes(one.tensor) > one.writes and is_read(other.value, copy.value.node, nodes, outputs)
            for one, other in (self.tensors, self.tensors[::-1])
        )


class Decided(msgspec.Struct, frozen=True, eq=False):
    """What was decided by how a tensor lies in memory: the answer to a question, or whether there is a copy."""

    #: The place among all that were.
    number: int
    origin: Origin
    #: The answer, True for a copy that is none, or strides.
    outcome: Any
    value: Value
    is_empty: bool
    #: What was made of the tensor; None if the program asked.
    made: Made | None = None

    @property
    def follows_write(self) -> bool:
        """Whether there was a write to the tensor before something was made of it, and another one after that."""
        made = self.made
        return made is not None and made.tensors[0].writes > 0 and made.is_written


class LayoutsAsked:
    """The questions and the copies of one recording."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.decided: list[Decided] = []
        #: Those that are decided otherwise here, by their numbers.
        self.turned: Collection[int] = ()
        #: Those of which the program asks with `is` whether there is a copy, by their numbers.
        self.compared: set[int] = set()
        self._asked: Origin | None = None
        #: Knows how tensors lie that the program has written to; None as long as nothing depends on it.
        self._written: WrittenLayouts | None = None
        #: Whether the strides of axes of one element matter too.
        self.exactly = False

    def ask(self, asked: Any, *, exactly: bool = False) -> None:
        """Note that the program asks how a tensor lies in memory, or `exactly` for its strides."""
        tensor = asked.value if isinstance(asked, Quantized) else asked
        if not isinstance(tensor, torch.Tensor):
            return
        self._check_written(tensor)
        if (self._asked is None or exactly > self.exactly) and self._depends(tensor):
            self._asked = self._asked or self._recorder.origins.find()
            self.exactly |= exactly
        if exactly:
            self._decide(tensor, expressions(tensor.stride()))

    def following_writes(self) -> AbstractContextManager[Any]:
        """A context in which tensors that the program writes to keep their strides, if that has been decided, or if
        kernels are to lay their results, which they do by how their arguments lie."""
        if _OF_WRITTEN.isdisjoint(self._recorder.decisions):
            return nullcontext()
        self._written = WrittenLayouts(self._recorder)
        return self._written

    def _check_written(self, tensor: torch.Tensor) -> None:
        """Have the strides of tensors followed if this one, or what it is computed from, may have been written to."""
        if is_transformed():  # The strides of what a transform of torch wraps are not known, nor followed.
            return
        inside = _functional(tensor)
        if self._written is None:
            known = self._known(tensor)
            if (known is not None and known.node is not None) or (inside is not None and number_of_writes(inside)):
                raise Reconsider(Decision.LAYOUTS_OF_WRITTEN)
        elif inside is not None and number_of_writes(inside) and not self._written.knows(inside):
            raise refused_here(
                "the program asks how a tensor lies in memory that it has written to: ask before, or let it compute "
                "with a copy, clone(memory_format=torch.contiguous_format)"
            )

    def relaid(self, tensor: torch.Tensor) -> None:
        """Called where the program gives a tensor other memory."""
        if self._written is not None:
            self._written.forget(inside_of_gradients(tensor))

    @property
    def settled(self) -> list[Decided]:
        """What was decided, once the program has returned."""
        if self._written is None and any(each.follows_write for each in self.decided):
            raise Reconsider(Decision.LAYOUTS_OF_WRITTEN)
        return self.decided

    def answer(self, tensor: torch.Tensor, answer: Any) -> Any:
        """The answer to the question of the program whether a tensor is contiguous. That of a script is a condition on
        dynamic sizes, by which the model branches."""
        self.ask(tensor)
        is_symbolic = isinstance(answer, torch.SymBool)
        is_turned = self._decide(tensor, answer.node.expr if is_symbolic else answer)
        return not answer if is_turned else answer

    def ask_where_caught(self, tensor: torch.Tensor) -> None:
        """The same, where an error is caught that is raised if it does not lie as it has to."""
        outermost = self._recorder.reader.outermost
        if outermost is None or not self._recorder.program_has("except"):
            return
        if errors_are_caught(current_frame(), outermost):
            self.ask(tensor)

    def made_one(
        self, given: Any, result: torch.Tensor, order: Sequence[int] | None = None, *, is_guessed: bool = False
    ) -> torch.Tensor:
        """What a function made of a tensor that may return the tensor itself."""
        before = len(self.decided)
        made = self.made(given, result, order, is_guessed=is_guessed, may_be_itself=True)
        if Decision.PLAIN_NUMBERS in self._recorder.decisions and self._recorder.program_has("is"):
            self._may_be_compared(range(before, len(self.decided)))
        return made

    def compare(self, one: torch.Tensor, other: torch.Tensor) -> None:
        """Note that the program asks with `is` whether two tensors are one: that may depend on whether there are copies
        by which the one was made of the other."""
        reached, found = {id(inside_of_gradients(one))}, set[int]()
        made = {each.number: each.made for each in self.decided if each.made is not None and each.made.may_be_itself}
        while more := {number for number, each in made.items() if number not in found and each.ends & reached}:
            found |= more
            reached = reached.union(*(made[number].ends for number in more))
        if id(inside_of_gradients(other)) in reached:
            self._may_be_compared(sorted(found))

    def _may_be_compared(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            made = self.decided[number].made
            assert made is not None
            self.ask(made.tensors[0].tensor)
            self.compared.add(number)

    def made(
        self, given: Any, result: torch.Tensor, order: Sequence[int] | None = None, *, is_guessed: bool = False,
        may_be_itself: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        """What `contiguous` or `reshape` made of a tensor, or `to`, of which torch knows what it makes of the sizes of
        the recording."""
        condition = None
        if type(given) is torch.Tensor:
            layouts = self._recorder.unclear_layouts
            if layouts.has(given):
                return layouts.copied(given, result)
            if not is_guessed:
                result, condition = copy_or_view(given, result, order)
        one, other = _functional(given), _functional(result)
        if one is None or other is None:
            return result
        is_copy = identity_of_memory(one) != identity_of_memory(other)
        recorder = self._recorder
        both = [TensorThen.of(each, recorder.value_of(unwrapped(each))) for each in (one, other)]
        made = Made((both[0], both[1]), is_copy, condition, may_be_itself, is_guessed)
        is_turned = self._decide(given, not is_copy, made)
        return result.clone() if is_turned and not is_copy else result

    def raveled(self, given: torch.Tensor) -> torch.Tensor:
        """What `ravel` makes of a tensor: unlike `reshape`, a copy of any that is not contiguous."""
        return self.made(given, given.contiguous(), order_of(torch.contiguous_format, given.ndim)).view(-1)

    def _decide(self, tensor: torch.Tensor, outcome: Any, made: Made | None = None) -> bool:
        """Note a decision. Returns whether it is to be the other one."""
        known = self._known(tensor)
        if known is None:
            return False
        number, is_empty = len(self.decided), any(type(size) is int and size == 0 for size in tensor.shape)
        origin = self._recorder.origins.find()
        self.decided.append(Decided(number, origin, outcome, known, is_empty, made))
        return number in self.turned

    def matters(self, made: Made, nodes: Sequence[Node], outputs: Iterable[Value]) -> bool:
        """Whether it may make a difference whether something is a copy. Where none is, a write to it reaches what it
        was made of, and what that was made of in turn."""
        if not made.is_written or not made.is_copy:
            return made.is_written
        memory = {view for each in made.tensors for view in views_of(each.value, nodes)}
        others = [other for each in self.decided if (other := each.made) is not None and other is not made]
        return made.is_lost(nodes, outputs) or any(each.value in memory for other in others for each in other.tensors)

    def place(self, nodes: Sequence[Node], outputs: Sequence[Value]) -> tuple[Origin | None, frozenset[int]]:
        """The first place at which what the program does may depend on how its inputs lie; None if there is none. Also
        the numbers of what is no copy and was written to, if that is all."""
        if self._asked is not None:
            return self._asked, frozenset()
        found = {
            each: each.made.is_copy
            for each in self.decided
            if each.made is not None and _comes_from_inputs(each.value) and self.matters(each.made, nodes, outputs)
        }
        origin = next((each.origin for each in found), None)
        return origin, frozenset(() if any(found.values()) else [each.number for each in found])

    def release(self) -> None:
        self.decided.clear()
        self._written = None

    def _known(self, tensor: torch.Tensor) -> Value | None:
        """The value of a tensor, without writes that have not been applied; None for a constant of the program."""
        inside = inside_of_gradients(tensor)
        known = inside_before_writes(inside) if is_functionaltensor(inside) else inside
        return self._recorder.value_of(known) if self._recorder.knows(known) else None

    def _depends(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies as an input does, as far as is known."""
        known = self._known(tensor)
        return known is not None and _comes_from_inputs(known)


def _functional(tensor: Any) -> torch.Tensor | None:
    """The tensor whose writes are followed, for one of the program; None if it is none."""
    if not isinstance(tensor, torch.Tensor):
        return None
    inside = inside_of_gradients(tensor)
    return inside if is_functionaltensor(inside) else None


def refuse_lost_write(pairs: Iterable[MayBeOne], nodes: Sequence[Node], outputs: Iterable[Value]) -> None:
    """Refuse a program that writes to one tensor of a pair, and reads the other one afterwards."""
    outputs = set(outputs)
    for pair in pairs:
        pair.note(nodes[-1] if nodes else None)
        for one, other in (pair.tensors, pair.tensors[::-1]):
            is_repeated = pair.has_repeated and one is pair.tensors[1]
            if one.is_written and (is_repeated or is_read(other.value, one.written_at, nodes, outputs)):
                raise CaptureError(
                    "the program writes in place to a tensor that, depending on values, is also one that a script was "
                    "given or returned or a loop has, and reads that afterwards: write to a "
                    f"clone{pair.origin.in_brackets}"
                )


def refuse_shared_memory(written: Iterable[Value], nodes: Sequence[Node], outputs: Iterable[Value]) -> None:
    """Refuse writes to tensors of the program in whose memory another one lies that it reads. `written` has the values
    that they had before. Each tensor is a constant of its own, so the other one would not change."""
    by_memory: dict[int | None, list[Value]] = {}
    for value in written:
        by_memory.setdefault(memory_of_constant(value.constant), []).append(value)
    by_memory.pop(None, None)
    for other in {*outputs, *(value for node in nodes for value in node.inputs())} if by_memory else ():
        for value in by_memory.get(memory_of_constant(other.constant), ()):
            if value is not other and overlap(value.constant, other.constant):
                one, another = (repr(each.name) if each.name else "a tensor" for each in (value, other))
                raise CaptureError(
                    f"the program writes in place to {one}, and reads {another}, which lies in the same memory. Give "
                    "each a memory of its own by clone(), or make one of the other in the program"
                )
