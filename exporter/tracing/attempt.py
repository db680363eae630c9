"""One recording: run the program once over fake tensors, and make a graph of what it did.

Failures are raised either as an exception after which `trace` makes another attempt, or as an error for the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from onnx_parity.exporter.dispatch.composites import keeping_composites
from onnx_parity.exporter.dispatch.functional import Called, functionalized
from onnx_parity.exporter.dispatch.gradients import ASKS_FOR_GRADIENTS, with_gradients
from onnx_parity.exporter.errors import ExportError, FrozenValueError, ProgramFailedError
from onnx_parity.exporter.graph.decisions import ENDS, Decision, Reconsider
from onnx_parity.exporter.graph.graph import Graph, Value
from onnx_parity.exporter.graph.origin import OriginFinder
from onnx_parity.exporter.patches.recording import recording_surroundings
from onnx_parity.exporter.program_state.module_state import (
    attribute_path,
    buffers_of,
    one_of_each,
    parameters_of,
    preserved,
)
from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.program_state.saved_objects import Kept
from onnx_parity.exporter.program_state.survivors import Survivors
from onnx_parity.exporter.program_state.weight_names import name_finder
from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
from onnx_parity.exporter.recording.fakes.kernel_layouts import Ancestry
from onnx_parity.exporter.recording.lifted import Lifting, result_by_class
from onnx_parity.exporter.recording.lost_writes import refuse_lost_write, refuse_shared_memory
from onnx_parity.exporter.recording.reads import looked_at
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.recording.results import LISTS, Kind, Returned, Written, taken_apart
from onnx_parity.exporter.recurrences.token_loops import with_all_tokens
from onnx_parity.exporter.torch_inside.code_objects import code_of
from onnx_parity.exporter.torch_inside.fake_tensors import DataDependentOutputException, DynamicOutputShapeException
from onnx_parity.exporter.torch_inside.frames import is_raised_by_python, is_raised_by_user
from onnx_parity.exporter.torch_inside.torchscript import ScriptFunction
from onnx_parity.exporter.tracing.capture_errors import (
    AxesFixed,
    changed_numbers,
    ended_the_process,
    failed_while_recorded,
    raising_what_was_caught,
    refuse_ignored_inputs,
)
from onnx_parity.exporter.tracing.recorded_inputs import Changed, RecordedInputs, before_copy
from onnx_parity.exporter.tracing.to_record import Attempt, ToRecord
from onnx_parity.exporter.tracing.traced import ByLayout, Traced

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["FailedThere", "record"]

_SCRIPTS = (torch.jit.ScriptModule, ScriptFunction)


class FailedThere(Exception):
    """The program raised an error because of what is other than in the example, and before it decided anything else.

    It is not known to fail there where it raises one later, which may be because of sizes that are the example's.
    """


def record(wanted: ToRecord, attempt: Attempt, survivors: Survivors, state: PythonState) -> Traced:
    """Record the program in one attempt. `survivors` is told which tensors are made meanwhile."""
    recording = _Recording(wanted, attempt, state)
    try:
        recording.run()
        if attempt.variant.is_another_side:
            if attempt.variant.layouts:
                recording.note_lost_copies()
            return recording.traced()
        recording.check()
        traced = recording.traced()
        recording.warn()
        return traced
    except (ProgramFailedError, _SymbolicNumberError, AxesFixed) as error:
        if recording.raised_at_once:
            raise FailedThere from error
        if recording.has_taken_general:
            raise Reconsider(Decision.SPECIAL_SIZES_OF_EXAMPLE) from error
        if isinstance(error, _SymbolicNumberError):
            raise Reconsider(Decision.PLAIN_NUMBERS, Decision.NUMBERS_OF_EXAMPLE) from error.__cause__
        raise
    except (DynamicOutputShapeException, DataDependentOutputException) as error:
        if attempt.has(Decision.SYMBOLS):
            raise failed_while_recorded(error) from error
        raise Reconsider(Decision.SYMBOLS) from error  # Sizes of the program depend on values.
    except FrozenValueError as error:
        if attempt.has(Decision.SYMBOLS):
            raise
        # With symbols, a flag that torch reads while it indexes, as in x[flag], stays a tensor.
        raise Reconsider(Decision.SYMBOLS) from error
    finally:
        recording.let_go(survivors)


class _SymbolicNumberError(Exception):
    """The recording failed after a number that depends on an input had become a symbol."""


class _Recording:
    def __init__(self, wanted: ToRecord, attempt: Attempt, state: PythonState) -> None:
        self._wanted, self._attempt, self._state = wanted, attempt, state
        self._symbols = symbols = _symbols(attempt) if attempt.has(Decision.SYMBOLS) else None
        self._recorder = recorder = Recorder(
            Fakes(symbols),
            OriginFinder(wanted.program),
            name_finder(wanted.program, wanted.weight_names),
            wanted.decomposition_of,
            wanted.options.strict,
            attempt.decisions,
        )
        reader = recorder.reader
        if symbols is not None:
            symbols.read_symbol = reader.read_symbol
            symbols.decided_by_values = reader.decided
            symbols.decided_before = reader.decided_before
            symbols.module_running = lambda: recorder.origins.find().module
        reader.joined, reader.joined_at = attempt.joined, attempt.joined_at
        if attempt.has_both_sides:
            reader.globals_named = [*state.globals_named()]
            reader.changes = partial(state.changes, wanted.program)
        reader.structured = None if attempt.has(Decision.AS_WRITTEN) else attempt.structured
        recorder.of_script = isinstance(wanted.program, _SCRIPTS)
        recorder.layouts_asked.turned = attempt.variant.turned
        recorder.random_numbers.names, recorder.result_by_class = [each for _, each in state.functions], result_by_class
        given, variant = (wanted.args, wanted.kwargs, wanted.input_names), attempt.variant
        reader.coincidences, reader.trial = attempt.coincidences, variant.trial
        reader.altered, reader.outermost = variant.altered, code_of(self._called)
        self._inputs = RecordedInputs(recorder, *given, attempt.axes, variant.empty, variant.sizes, variant.layouts)
        self._buffers = buffers_of(wanted.program)
        #: For each of these, whether autograd tracks it.
        self._tracked = [False] * len(self._buffers)
        if attempt.weights:
            parameters = [each for each in parameters_of(wanted.program) if id(each.tensor) in attempt.weights]
            self._buffers += parameters
            self._tracked += [each.tensor.requires_grad for each in parameters]
        self._buffer_fakes = [recorder.writable(recorder.constant(buffer.tensor)) for buffer in self._buffers]
        #: Their values before the program writes to them.
        self._before = [recorder.value_of(fake) for fake in self._buffer_fakes]
        tracked = zip(self._buffers, self._tracked, strict=True)
        recorder.weights.differentiated = frozenset(id(each.tensor) for each, is_tracked in tracked if is_tracked)
        #: What the program assigned to buffers and attributes: the new tensors by name, and the names of other objects.
        self._assigned: dict[str, torch.Tensor] = {}
        self._assigned_others: list[str] = []
        #: Wraps the tensors of the program (see `Decision.WRAP_OWN_TENSORS`).
        self._lifted: Lifting | None = None
        #: Those of them that the program wrote to, by their paths.
        self._own_written: dict[str, Value] = {}
        #: Whether a statement of Python raised the error with which the program failed, and whether that was its own.
        self._has_raised = self._has_raised_itself = False
        self._returned: Returned
        #: The graph values of the returned tensors, of `_assigned`, and of `_lifted`.
        self._outputs: list[Value] = []
        self._assigned_values: list[Value] = []
        self._lifted_values: list[Value] = []
        self._kept: list[Kept] = []
        #: What the program put into the objects among its arguments, and the values of the tensors.
        self._changed = Changed({}, {}, [])
        self._put_values: list[Value] = []

    @property
    def has_taken_general(self) -> bool:
        """Whether a size that is 0 or 1 in the example was taken to be another one."""
        return self._symbols is not None and self._symbols.has_taken_general

    @property
    def raised_at_once(self) -> bool:
        """Whether the program raised an error before it decided anything after what is other than in the example.
        torch may have raised one because of sizes that are the example's."""
        if self._attempt.variant.altered is not None:
            return self._has_raised and self._recorder.reader.failed_at_altered
        return self._has_raised_itself and self._symbols is not None and self._symbols.failed_at_denied

    # --- the program runs ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the program under the modes and patches that record it."""
        try:
            with raising_what_was_caught():
                values = self._values()
        except (ExportError, DynamicOutputShapeException, DataDependentOutputException):
            raise
        except SystemExit as error:
            raise ended_the_process(error) from error
        except Exception as error:
            raise self._failure(error) from error
        if self._recorder.reader.refusal is not None:
            raise self._recorder.reader.refusal
        lifted = len(values) - (0 if self._lifted is None else len(self._lifted.own))
        put = lifted - len(self._changed.inputs) - len(self._changed.new)
        returned = put - len(self._assigned)
        self._outputs, self._assigned_values = values[:returned], values[returned:put]
        self._put_values, self._lifted_values = values[put:lifted], values[lifted:]

    def _values(self) -> list[Value]:
        recorder = self._recorder
        dynamic: AbstractContextManager[None] = nullcontext()
        if self._symbols is not None:  # Programs with static sizes do not need it.
            from onnx_parity.exporter.tracing.dynamic_sizes import with_dynamic_sizes

            dynamic = with_dynamic_sizes(recorder, code_of(self._called))
        with recording_surroundings(recorder), dynamic, recorder, keeping_composites():
            called: Called = self._called
            if self._attempt.has(Decision.GRADIENTS):
                called = with_gradients(called, self._inputs.require_gradients(), self._tracked)
            called = functionalized(called)
            return [recorder.value_of(result) for result in called(self._inputs.fakes, self._buffer_fakes)]

    def _called(self, tensors: Sequence[torch.Tensor], buffers: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Call the program, inside of `functionalized`. Returns all tensors whose values `run` needs afterwards."""
        recorder, program, variant = self._recorder, self._wanted.program, self._attempt.variant
        if self._attempt.has(Decision.VIEWS_OF_INPUTS):
            tensors = [torch.ops.aten.alias.default(each) for each in tensors]
        earlier = [[torch.ops.aten.flip.default(each, []) for each in tensors]] if variant.is_second_call else []
        lifting: AbstractContextManager[Lifting | None] = Lifting(recorder) if recorder.lifts else nullcontext()
        buffers = one_of_each(self._buffers, buffers)
        recorder.buffers = frozenset(map(id, buffers))
        with preserved(program, self._buffers, buffers, recorder.was_read) as assigned, lifting as lifted:
            for given in (*earlier, tensors):
                args, kwargs = self._inputs.arguments(given)
                result = program(*args, **kwargs)
            if not variant.is_another_side and not self._inputs.has_objects:
                self._kept = self._state.changed(program)
            for changed in recorder.at_end:
                assigned.update(changed(program))
        self._inputs.refuse_written(tensors if self._wanted.options.return_written else ())
        self._changed = self._inputs.changed_in_objects(args, kwargs, program)
        put = [*self._changed.inputs.values(), *self._changed.new.values()]
        self._assigned = {name: new for name, new in assigned.items() if isinstance(new, torch.Tensor)}
        self._assigned_others = [name for name in assigned if name not in self._assigned]
        self._returned, outputs = taken_apart(result)
        results = [*outputs, *self._assigned.values(), *put]
        self._lifted = lifted
        return results if lifted is None else [*map(lifted.as_written, results), *lifted.wrapped]

    def _failure(self, error: Exception) -> Exception:
        """The exception to raise for an error of the program: either for another attempt, or for the user."""
        self._has_raised = is_raised_by_python(error)
        self._has_raised_itself = self._has_raised and is_raised_by_user(error)
        reader, symbols = self._recorder.reader, self._symbols
        if reader.refusal is not None:
            return reader.refusal
        if not self._attempt.has(Decision.GRADIENTS) and ASKS_FOR_GRADIENTS in str(error):
            return Reconsider(Decision.GRADIENTS)
        if not self._recorder.lifts and isinstance(error, RuntimeError) and "non-functional tensor" in str(error):
            return Reconsider(Decision.WRAP_OWN_TENSORS)
        if self._recorder.reader.left_a_branch and not self._attempt.decisions.issuperset(ENDS):
            return Reconsider(*ENDS)  # It may fail in some iterations alone.
        if reader.scalars:
            return _SymbolicNumberError()
        if symbols is None and "data is not allocated" in str(error):
            # torch.tensor([x[0], x[1]]) reads memory. An attempt with symbols records it as an operator.
            return Reconsider(Decision.SYMBOLS)
        unlike = [*map(str, symbols.unlike_the_example())] if symbols is not None else []
        return failed_while_recorded(error, self._inputs.axis_names, unlike)

    # --- checks and the graph -----------------------------------------------------------------------------------------

    def note_lost_copies(self) -> None:
        """Note what a write in place changes for some sizes only, but where torch's kernels decide that: then it is
        tried."""
        if self._symbols is None:
            return
        ancestry = Ancestry(self._recorder.fakes_by_value())
        is_tried = self._attempt.has(Decision.LAYOUTS_OF_KERNELS)
        for each in self._recorder.layouts_asked.decided:
            condition = each.made.condition if each.made is not None else None
            if each.made is None or condition is None or not each.made.is_lost(self._recorder.nodes, self._results):
                continue
            if not (is_tried and self._symbols.is_of_inputs(condition) and ancestry.is_open(each.value)):
                self._symbols.lost_copy(condition, each.origin)

    @property
    def _results(self) -> tuple[Value, ...]:
        """What is read when the program has returned."""
        inputs = [each.value for each in self._inputs.inputs] if self._wanted.options.return_written else []
        return (*self._outputs, *self._assigned_values, *self._put_values, *inputs)

    def _layouts(self) -> list[ByLayout]:
        """What was decided by how tensors lie in memory."""
        asked = self._recorder.layouts_asked
        if not (decided := asked.settled):
            return []
        ancestry = Ancestry(self._recorder.fakes_by_value())
        return [
            ByLayout(
                number=each.number,
                origin=each.origin,
                outcome=each.outcome,
                is_empty=each.is_empty,
                is_made=each.made is not None,
                may_matter=each.made is None
                or each.number in asked.compared
                or asked.matters(each.made, self._recorder.nodes, self._results),
                is_open=(each.made is not None and each.made.is_guessed) or ancestry.is_open(each.value),
                sizes=ancestry.sizes(each.value),
                condition=None if each.made is None else each.made.condition,
            )
            for each in decided
        ]

    def check(self) -> None:
        """Raise if the exported model would behave differently from the program."""
        buffers = zip(self._before, self._buffer_fakes, strict=True)
        written = [before for before, fake in buffers if self._recorder.value_of(fake) is not before]
        if self._lifted is not None:
            path_of = partial(attribute_path, self._wanted.program)
            self._own_written = self._lifted.written(self._lifted_values, path_of)
            written += self._lifted.before_writes(self._lifted_values)
        refuse_lost_write(self._recorder.may_be_one, self._recorder.nodes, self._results)
        refuse_shared_memory(written, self._recorder.nodes, self._results)
        if self._changed.numbers and not self._wanted.options.allow_ignored_inputs and self._gives_back():
            raise changed_numbers(self._changed.numbers)
        symbols, axis_names = self._symbols, self._inputs.axis_names
        if symbols is not None:
            self.note_lost_copies()
            if fixed := symbols.fixed(axis_names):
                raise AxesFixed(fixed, axis_names, [*symbols.answers.values()])
            symbols.closed = True

    def warn(self) -> None:
        """Warn of what was built in. It comes last, because an attempt that raises is made again or refused."""
        self._recorder.random_numbers.warn()

    def traced(self) -> Traced:
        """The graph, the structure of its outputs, and the names of what the program wrote to."""
        recorder, inputs = self._recorder, self._inputs
        written = self._written()
        outputs, returned = self._outputs_as_returned(), self._returned
        others = [*self._assigned_others, *self._put_elsewhere()]
        names = [*(end.name for end in written), *others]
        if self._wanted.options.return_written:
            outputs += written.values()
            returned = replace(returned, written=tuple(written))
            names = others
        if self._lifted is not None:
            names = [*names, *self._lifted.renormed(self._lifted_values)]
        sources = recorder.symbol_sources() | inputs.size_sources
        graph = Graph(
            inputs.inputs,
            with_all_tokens(recorder.nodes, sources),
            outputs,
            inputs.axis_names,
            sources,
            recorder.has_complex,
            self._attempt.has(Decision.GRADIENTS),
            recorder.autocast,
        )
        reads = recorder.reader.reads
        if reads and not self._wanted.options.allow_ignored_inputs and self._symbols is None:
            # With symbols, a flag that torch reads while it indexes, as in x[flag], stays a tensor.
            refuse_ignored_inputs(graph, looked_at(reads))
        questions = [] if self._symbols is None else self._symbols.branches()
        has_denied = self._symbols is not None and self._symbols.has_denied
        sizes = {} if self._symbols is None else self._symbols.hints
        text, of = recorder.reader.text, recorder.reader.sizes_in_texts
        traced = Traced(graph, returned, names, reads, questions, sizes, has_denied, text=text, sizes_in_texts=of)
        asked = recorder.layouts_asked
        traced.asks_layouts, traced.written_views = asked.place(recorder.nodes, self._results)
        traced.asks_exactly = asked.exactly
        if self._symbols is not None:
            traced.equalities, traced.kernels = self._symbols.equalities(), self._symbols.kernels
        traced.layouts, traced.kept = self._layouts(), self._kept
        traced.numbers, traced.conditions = inputs.numbers(), recorder.reader.conditions
        return traced

    def let_go(self, survivors: Survivors) -> None:
        """Release all fake tensors. `survivors` observes which of them remain."""
        self._buffer_fakes, self._assigned, self._lifted, self._changed = [], {}, None, Changed({}, {}, [])
        survivors.watch(self._recorder.fakes, self._recorder.release())
        self._inputs.release()
        if self._symbols is not None:
            self._symbols.let_go()

    def _written(self) -> dict[Written, Value]:
        """The new values of the buffers, inputs and attributes that the program wrote to."""
        after: dict[Written, Value] = {}
        for buffer, fake in zip(self._buffers, self._buffer_fakes, strict=True):
            after[Written(buffer.path)] = self._recorder.value_of(fake)
        for number, fake in self._inputs.tensor_inputs():
            after[Written(self._wanted.input_names[number], number)] = self._recorder.value_of(fake)
        # A value without a node is unchanged, because no operator computed it.
        written = {end: value for end, value in after.items() if value.node is not None}
        for number, value in zip(self._changed.inputs, self._put_values, strict=False):
            written[Written(self._wanted.input_names[number], number)] = value
        if self._inputs.has_objects:
            # A cache that is given back has its new values among the outputs.
            returned = {id(value) for value in self._outputs}
            written = {
                end: value
                for end, value in written.items()
                if end.place is None or id(before_copy(value)) not in returned
            }
        assigned = zip(self._assigned, self._assigned_values, strict=True)
        own = self._own_written.items()
        return written | {Written(name): value for name, value in (*own, *assigned)}

    def _gives_back(self) -> bool:
        """Whether new values of tensors in the objects among the arguments are outputs of the model."""
        if self._wanted.options.return_written:
            return True
        returned = {id(value) for value in self._outputs}
        inside = [self._recorder.value_of(fake) for _, fake in self._inputs.tensor_inputs()]
        return any(v.node is not None and id(v) in returned for v in (*self._put_values, *map(before_copy, inside)))

    def _put_elsewhere(self) -> list[str]:
        """Places in objects among the arguments that the program put new tensors and other numbers into, and whose
        content it does not return."""
        returned = {id(value) for value in self._outputs}
        values = self._put_values[len(self._changed.inputs) :]
        new = [name for name, value in zip(self._changed.new, values, strict=True) if id(value) not in returned]
        return [*new, *self._changed.numbers]

    def _outputs_as_returned(self) -> list[Value]:
        """The values that the program returned. A list that is held in one tensor is converted to a list."""
        outputs = list(self._outputs)
        for place, kind in enumerate(kind for kind in self._returned.kinds if kind is not Kind.PLAIN):
            if kind in LISTS and not outputs[place].holds.is_list:
                outputs[place] = self._recorder.listed(outputs[place])
        return outputs


def _symbols(attempt: Attempt) -> Symbols:
    from onnx_parity.exporter.sizes.symbols import Symbols

    return Symbols(attempt.decisions, attempt.variant.denied, attempt.followed)
