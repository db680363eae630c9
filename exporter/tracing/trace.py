"""Capture by tracing: a program is recorded over fake tensors, without computing anything, as often as it takes.

The first attempt is the cheapest: without symbols, if no axis is dynamic. What a recording cannot decide so is a
`Reconsider`, raised at the place that needs the decision, and the program is recorded again with it. Where all
decisions that would help have been taken, the program is refused.

Four layers see each operator, from the outside in: composite kernels (`dispatch/composites.py`), functionalization,
the recorder (`recording/recorder.py`), and the result cache of the fake tensors (`recording/fakes/result_cache.py`).

`dispatch/functional.py` turns views and writes in place into operators without side effects. Buffers are passed in as
arguments, so that a write to one becomes visible: its new value arrives as a final `copy_`, which is not part of the
model and is warned about. A write to any other tensor that the program did not create is refused.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from onnx_parity.exporter.containers import leaves_of
from onnx_parity.exporter.errors import CaptureError, FrozenValueError, OnnxExporterError, ProgramFailedError
from onnx_parity.exporter.graph.assumptions import LayoutOfInput
from onnx_parity.exporter.graph.decisions import INSTEAD, OF_DYNAMIC_AXES, Decision, Reconsider
from onnx_parity.exporter.patches.recording import capturing_surroundings
from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.program_state.survivors import KeptTensorError, Survivors
from onnx_parity.exporter.recording.fakes.input_layouts import InputLayout
from onnx_parity.exporter.recording.frozen_sizes import FrozenSizes, SizesOfTrial
from onnx_parity.exporter.recording.reads import Altered, looked_at
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.torch_inside.frames import clear_locals, codes_running
from onnx_parity.exporter.tracing import both_sides
from onnx_parity.exporter.tracing.assumptions import assumptions_of, declared_sizes, not_stated, reads_not_stated
from onnx_parity.exporter.tracing.attempt import FailedThere, record
from onnx_parity.exporter.tracing.capture_errors import (
    AxesFixed,
    contradicted_by_example,
    failed_while_recorded,
    fixed_axes,
    refuse_fixed_numbers,
    refuse_ignored_inputs,
    warn_of_static_axes,
)
from onnx_parity.exporter.tracing.exchanged_code import calls_with_sizes, structured_code
from onnx_parity.exporter.tracing.silent import silent
from onnx_parity.exporter.tracing.to_record import Attempt, ToRecord, Variant
from onnx_parity.exporter.tracing.traced import ByLayout, Traced

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression
    from onnx_parity.exporter.sizes.answers import Answer

__all__ = ["Traced", "trace"]

#: How often further functions are followed where a program fails in the same way.
_MOST_FOLLOWED = 3
#: What Python raises of a size that is a symbol where it wants a number, such as for a key of a dict. With numbers the
#: program may run.
_OF_SYMBOLS = (TypeError, AttributeError)


def trace(wanted: ToRecord, axes: Axes) -> Traced:
    """Record a program whose axes are dynamic as `axes` says.

    Axes with `Dim.AUTO` that it fixes become static; so do those of `dynamic_axes` if it runs with no other size, with
    a warning. Any other that it fixes is an error, as is an input that only decides, unless `allow_ignored_inputs`.
    """
    return _Tracing(wanted, axes).traced()


class _Tracing:
    """The attempts to record one program."""

    def __init__(self, wanted: ToRecord, axes: Axes) -> None:
        self._wanted = wanted
        # Programs without dynamic axes are first recorded without symbols, because their import takes time.
        self._attempt = Attempt(axes, frozenset({Decision.SYMBOLS} if axes.inputs else ()))
        leaves = leaves_of((wanted.args, wanted.kwargs))
        self._reached = PythonState([wanted.program, *leaves], follows_code=True)
        self._arguments = PythonState(leaf for leaf in leaves if not isinstance(leaf, torch.Tensor))
        #: What the program may still hold of attempts that were given up.
        self._earlier: list[Survivors] = []
        #: The attempts with other answers or sizes in which the program fails.
        self._failing: list[Attempt] = []
        #: Axes that become static because the program runs with no other size.
        self._static_axes: list[AxesFixed] = []
        #: How often the program has failed with each text.
        self._failures: Counter[str] = Counter()
        #: The attempt that follows where one fails in which code was written down otherwise.
        self._as_written: Attempt | None = None
        #: What it would be refused for.
        self._leaves: BaseException | None = None
        #: Why a recording failed in which a number that was read from a tensor was a symbol.
        self._failure: BaseException | None = None

    def traced(self, *, fewer_than: float = float("inf")) -> Traced:
        """The recording, if it reads fewer values than so many."""
        traced = None
        while traced is None:
            try:
                traced = self._tried()
            except OnnxExporterError as error:
                if self._as_written is None:
                    raise
                if self._leaves is not None:
                    raise error if type(error) is CaptureError else self._leaves from error
                self._attempt, self._as_written = self._as_written, None
        failure, self._failure = self._failure, None  # Its frames refer to tensors.
        removed = [each.remove() for each in self._earlier]
        if any(removed):
            # The program has used what it had stored in an earlier attempt.
            traced = self._recorded(self._wanted, self._attempt, is_last=True)
        deciding = self._layouts_that_decide(traced)
        if deciding and not self._attempt.has(Decision.LAYOUTS_OF_KERNELS):
            self._attempt = self._attempt.deciding(Decision.LAYOUTS_OF_KERNELS)
            return self.traced(fewer_than=fewer_than)
        traced, branches = self._with_branches_that_matter(traced)
        if deciding:
            branches += self._conditions_for_layouts(traced, deciding, branches)
        else:
            traced, branches = self._on_both_sides(traced, branches)
        branches += self._axes_that_have_to_be_equal(traced)
        contradicted = [each for each in branches if each.is_other_in_example]
        if contradicted:
            axis_names = traced.graph.axis_names
            names = {axis_names.get(str(each), str(each)) for known in contradicted for each in known.symbols}
            if not names <= self._attempt.axes.automatic:
                raise contradicted_by_example(contradicted, axis_names)
            self._attempt = replace(self._attempt, axes=self._attempt.axes.without(names))
            return self.traced(fewer_than=fewer_than)
        is_right = self._is_right_with_other_values(traced)
        for with_parts_by_values in (self._with_loops_by_values, self._with_branches_by_values):
            if (found := with_parts_by_values(traced)) is not None:
                return found
        options = self._wanted.options
        if len(traced.reads) >= fewer_than or not both_sides.keeps_shapes(traced, self._attempt, self._wanted):
            raise CaptureError("the program reads as many values otherwise")
        if traced.text is not None and not is_right:
            made = f"the program makes a text of a tensor or of a dynamic size{traced.text.placed}"
            why = "what it computes depends on the text, which a model cannot make: compute with the numbers themselves"
            raise CaptureError(f"{made}, and {why}")
        if traced.reads and not options.allow_ignored_inputs:
            refuse_fixed_numbers(traced.numbers, looked_at(traced.reads))
            refuse_ignored_inputs(traced.graph, looked_at(traced.reads))
        try:
            traced.assumptions = assumptions_of(
                [*branches, *traced.kernels],
                traced.reads,
                self._layouts_that_matter(traced, branches, deciding),
                traced.graph.axis_names,
                declared=declared_sizes(self._attempt.axes, traced.graph.inputs),
                stated=options.assume,
                strict=options.strict,
            )
        except FrozenValueError as error:
            raise error from failure
        if traced.kept and not self._attempt.joined:
            from onnx_parity.exporter.tracing.second_call import say_what_is_kept

            say_what_is_kept(traced, self._called_again, self._wanted.program, self._reached, strict=options.strict)
        for each in self._static_axes:
            warn_of_static_axes(each.fixed, each.axis_names)
        traced.axes = self._attempt.axes
        return traced

    def _tried(self) -> Traced | None:
        """The recording of an attempt; None if another attempt is to follow."""
        try:
            return self._recorded(self._wanted, self._attempt)
        except Reconsider as found:
            self._attempt = self._reconsidered(found)
        except ProgramFailedError as error:
            if self._attempt.has(Decision.PLAIN_NUMBERS) or not self._attempt.has(Decision.SYMBOLS):
                raise
            # A function that is not followed may have told a dynamic size from an int. A program that makes its
            # functions anew each time fails in the same way again.
            self._failures[str(error)] += 1
            if self._failures[str(error)] > _MOST_FOLLOWED or not self._reached.follow(codes_running(error)):
                # It may need plain numbers, as `table[len(x)]` does.
                self._attempt = self._attempt.deciding(Decision.PLAIN_NUMBERS)
        except FrozenSizes as found:
            self._attempt = self._with_coincidence(found)
        except FrozenValueError as error:
            # Where numbers are frozen, what failed with symbols is the cause.
            raise error from self._failure
        except AxesFixed as found:
            self._attempt = self._with_both_sides(found) or self._with_static_axes(found)
        return None

    def _with_both_sides(self, found: AxesFixed) -> Attempt | None:
        """The next attempt for a program that fixes axes, with both sides of its questions; None if that was tried."""
        joining = both_sides.joining_sizes(self._attempt, found.branches, self._functions)
        if joining is not None and not self._attempt.joined:
            self._as_written = self._attempt.deciding(Decision.AS_WRITTEN)
        return joining

    def _on_both_sides(self, traced: Traced, branches: list[Answer]) -> tuple[Traced, list[Answer]]:
        """The recording with both sides of its branches, and of those within them, as far as they can be recorded: of
        all together, or of those of one line after the other, where those of another line prevent it."""
        traced, branches = self._joined_at(None, traced, branches)
        for place in both_sides.lines_alone(not_stated(branches, traced.graph.axis_names, self._wanted.options.assume)):
            traced, branches = self._joined_at(place, traced, branches)
        return traced, branches

    def _joined_at(
        self, place: both_sides.Place | None, traced: Traced, branches: list[Answer]
    ) -> tuple[Traced, list[Answer]]:
        """The same for the branches of a line, or for all."""
        stated, before = self._wanted.options.assume, self._attempt
        asked = not_stated(branches, traced.graph.axis_names, stated)
        while joining := both_sides.joining_sizes(self._attempt, both_sides.asked_at(place, asked), self._functions):
            self._attempt = joining
            try:
                joined = self._recorded_at_last()
                is_worse = len(joined.reads) >= len(branches) + len(traced.reads)
                keeps_shapes = both_sides.keeps_shapes(joined, self._attempt, self._wanted)
                if is_worse or self._layouts_that_decide(joined) or not keeps_shapes:
                    break
                joined, asked = self._with_branches_that_matter(joined)
            except (OnnxExporterError, AxesFixed):
                break
            if len(asked) + len(joined.reads) < len(branches) + len(traced.reads):
                traced, branches, before = joined, asked, self._attempt
            asked = not_stated(asked, joined.graph.axis_names, stated)
        self._attempt = before
        return traced, branches

    def _recorded_at_last(self) -> Traced:
        """The recording of an attempt, with what it has to decide."""
        while True:
            try:
                return self._recorded(self._wanted, self._attempt, is_last=True)
            except Reconsider as found:
                further = self._attempt.reconsidered(found)
                if further is None or Decision.RANKS_OF_EXAMPLE in found.decisions:
                    raise  # No decision gives tensors of both sides the same rank.
                self._attempt = further

    def _with_loops_by_values(self, traced: Traced) -> Traced | None:
        """The recording in which loops that end by values are loops of the model; None where none can be."""
        if self._attempt.has(Decision.LOOPS_BY_VALUES) or not any(each.ends_loop for each in traced.reads):
            return None
        # Where that fails, they stay as many iterations as in the example, which is stated.
        looping = self._attempt.deciding(Decision.SYMBOLS).deciding(Decision.LOOPS_BY_VALUES)
        return self._with_fewer_reads(looping, traced)

    def _with_branches_by_values(self, traced: Traced) -> Traced | None:
        """The recording with both sides of branches on values, as far as they can be recorded; None where none can."""
        asked = reads_not_stated(traced.reads, self._wanted.options.assume)
        for joining in both_sides.joining_values(self._attempt, asked, self._functions):
            if (joined := self._with_fewer_reads(joining, traced)) is not None:
                return joined
        return None

    def _with_fewer_reads(self, attempt: Attempt, traced: Traced) -> Traced | None:
        """The recording of an attempt, if it reads fewer values than this one."""
        before, self._attempt = self._attempt, attempt
        try:
            return self.traced(fewer_than=len(traced.reads))
        except OnnxExporterError:
            self._attempt, self._as_written, self._leaves, self._failure = before, None, None, None
            return None

    def _reconsidered(self, found: Reconsider) -> Attempt:
        """The next attempt, with a decision that was asked for; raises the refusal if there is none."""
        attempt = self._attempt.reconsidered(found)
        for decision in (INSTEAD.keys() & found.decisions) - self._attempt.decisions:
            self._as_written, self._leaves = self._attempt.deciding(INSTEAD[decision]), found.refusal
        if found.codes:
            self._reached.follow(found.codes)
        if Decision.NUMBERS_OF_EXAMPLE in found.decisions:
            self._failure = found.__cause__
        elif not found.decisions and isinstance(self._failure, Exception):
            raise failed_while_recorded(self._failure) from self._failure
        if attempt is None:
            raise found.refusal or found from None
        return attempt

    def _with_coincidence(self, found: FrozenSizes) -> Attempt:
        """The next attempt for a split whose sizes stay the same where the program reads other numbers from values;
        raises the refusal if they do not."""
        trial = found.trial
        if trial is not None:
            try:
                self._recorded(self._wanted, replace(self._attempt, variant=Variant(trial=trial)), is_last=True)
            except SizesOfTrial as seen:
                if seen.sizes == found.sizes:
                    return replace(self._attempt, coincidences=self._attempt.coincidences | {trial.split})
            except (OnnxExporterError, AxesFixed):
                pass  # The other numbers lead elsewhere, so the sizes depend on them.
        listing = self._attempt.deciding(Decision.SYMBOLS).deciding(Decision.LISTS_OF_NUMBERS)
        if self._attempt != listing:
            before, self._attempt = self._attempt, listing
            try:
                self._recorded_at_last()
                return self._attempt
            except (OnnxExporterError, AxesFixed):
                self._attempt = before
        raise FrozenValueError(*found.args) from self._failure

    def _with_static_axes(self, found: AxesFixed) -> Attempt:
        """The next attempt for a program that fixes dynamic axes, in which they are static; raises the refusal unless
        they may be, or the program runs with no other sizes of them anyway."""
        names = set(found.fixed) & self._attempt.axes.automatic
        if not names:
            from onnx_parity.exporter.tracing.other_sizes import runs_with_another_size

            is_required = self._wanted.options.strict or self._attempt.axes.must_vary
            if is_required or runs_with_another_size(self._wanted, self._attempt, found.fixed, self._runs):
                raise fixed_axes(found.fixed, found.axis_names) from None
            self._static_axes.append(found)
            names = set(found.fixed)
        return replace(self._attempt, axes=self._attempt.axes.without(names))

    def _runs(self, resized: ToRecord, static: Attempt) -> bool:
        try:
            self._recorded(resized, static, is_last=True)
        except ProgramFailedError:
            return False
        except (OnnxExporterError, AxesFixed):
            return True  # The program itself may run.
        return True

    def _with_branches_that_matter(self, traced: Traced) -> tuple[Traced, list[Answer]]:
        """The recording, or one of another side of its branches that is right for all sizes."""
        if not traced.branches:
            return traced, []
        from onnx_parity.exporter.tracing.branches_on_sizes import branches_that_matter, on_the_other_side

        mattering = branches_that_matter(traced, self._recorded_again)
        other = on_the_other_side(traced, mattering, self._recorded_again) if mattering else None
        return (traced, mattering) if other is None else (other, [])

    def _axes_that_have_to_be_equal(self, traced: Traced) -> list[Answer]:
        """The answers that axes are equal which are not only broadcast together."""
        if not traced.equalities:
            return []
        from onnx_parity.exporter.tracing.broadcast_axes import axes_that_have_to_be_equal

        return axes_that_have_to_be_equal(traced, self._recorded_again)

    def _is_right_with_other_values(self, traced: Traced) -> bool:
        """Whether the program computes the same with other texts. What it reads is left to it as far as it matters."""
        if not traced.reads and traced.text is None:
            return True
        from onnx_parity.exporter.tracing.other_values import is_right_with_other_texts, reads_that_matter

        traced.reads = reads_that_matter(traced, self._recorded_again)
        return traced.text is None or is_right_with_other_texts(traced, self._recorded_again)

    def _layouts_that_decide(self, traced: Traced) -> list[ByLayout]:
        """What was decided by how torch's kernels lay tensors in memory, of what makes a difference."""
        if not any(each.may_matter and each.is_open for each in traced.layouts):
            return []
        from onnx_parity.exporter.tracing.layouts_of_results import layouts_that_decide

        return layouts_that_decide(traced, self._recorded_again)

    def _conditions_for_layouts(
        self, traced: Traced, deciding: Sequence[ByLayout], branches: Sequence[Answer],
        layouts: Mapping[int, InputLayout] = {},
    ) -> list[Answer]:  # fmt: skip
        """The conditions on sizes with which that is decided as in the recording, which was with these layouts."""
        if not deciding or not traced.graph.axis_names:
            return []
        from onnx_parity.exporter.tracing.layouts_of_results import conditions_for_layouts

        declared = declared_sizes(self._attempt.axes, traced.graph.inputs)
        return conditions_for_layouts(traced, deciding, branches, declared, partial(self._recorded_at, layouts=layouts))

    def _recorded_at(self, sizes: Mapping[str, int], layouts: Mapping[int, InputLayout]) -> Traced | None:
        """The recording with inputs of these sizes, which are no symbols; None if the program fails with them, or if it
        cannot be recorded so."""
        from onnx_parity.exporter.tracing.branches_on_sizes import NotRecorded
        from onnx_parity.exporter.tracing.other_sizes import resized_to

        resized = resized_to(self._wanted, self._attempt.axes, sizes)
        if resized is None:
            return None
        attempt = replace(
            self._attempt,
            axes=Axes(),
            structured=frozenset(),
            joined=frozenset(),
            joined_at=frozenset(),
            decisions=self._attempt.decisions - OF_DYNAMIC_AXES | {Decision.LAYOUTS_OF_KERNELS},
            variant=Variant(layouts=layouts, is_resized=True),
        )
        try:
            return self._recorded_in(resized, attempt)
        except (FailedThere, NotRecorded):
            return None

    def _layouts_that_matter(
        self, traced: Traced, branches: Sequence[Answer], deciding: Sequence[ByLayout]
    ) -> list[LayoutOfInput]:
        """How the inputs lie in memory in the example, of those for which it makes a difference."""
        if traced.asks_layouts is None:
            return []
        from onnx_parity.exporter.tracing.layouts_of_inputs import layouts_that_matter

        again = partial(self._recorded_again, also_denied=traced.denied)
        conditions = partial(self._conditions_for_layouts, branches=branches)
        return layouts_that_matter(traced, branches, again, conditions, is_decided_by_kernels=bool(deciding))

    def _recorded_again(
        self,
        *,
        denied: frozenset[Expression] = frozenset(),
        empty: str | None = None,
        sizes: Mapping[str, int] = {},
        altered: Altered | None = None,
        layouts: Mapping[int, InputLayout] = {},
        also_denied: frozenset[Expression] = frozenset(),
        turned: frozenset[int] = frozenset(),
        is_second_call: bool = False,
    ) -> Traced | None:
        denied ^= also_denied
        variant = Variant(denied, empty, sizes, None, altered, layouts, turned, is_second_call=is_second_call)
        decided = self._attempt.deciding(Decision.LAYOUTS_OF_KERNELS) if layouts else self._attempt
        attempt = replace(decided, variant=variant)
        with silent():  # The program warns of what is not so for the example.
            other = None if attempt in self._failing else self._recorded_in(self._wanted, attempt)
        if other is None:
            self._failing.append(attempt)
        return None if other is None else replace(other, denied=denied)

    def _called_again(self) -> Traced | None:
        """The recording of a second call, for which the objects of the program are as they were before the first."""
        wanted = self._wanted
        now = PythonState([wanted.program, *leaves_of((wanted.args, wanted.kwargs))], follows_code=True)
        self._reached.restore()
        try:
            return self._recorded_again(is_second_call=True)
        finally:
            now.restore()

    def _recorded_in(self, wanted: ToRecord, attempt: Attempt) -> Traced | None:
        from onnx_parity.exporter.tracing.branches_on_sizes import NotRecorded

        while True:
            try:
                return self._recorded(wanted, attempt, is_last=True)
            except ProgramFailedError as error:
                if isinstance(error.__cause__, _OF_SYMBOLS):
                    raise NotRecorded from error
                return None
            except Reconsider as found:
                has_other_sizes = attempt.variant.sizes or attempt.variant.is_resized
                further = attempt.reconsidered(found) if has_other_sizes else None
                if further is None:
                    raise NotRecorded from found
                attempt = further
            except (OnnxExporterError, AxesFixed) as error:
                raise NotRecorded from error

    def _recorded(self, wanted: ToRecord, attempt: Attempt, *, is_last: bool = False) -> Traced:
        """Record the program in one attempt, and leave it and its arguments as they were. If it is recorded again, what
        the program may still hold of this attempt is kept, to be removed after the last."""
        survivors, outer = Survivors(), sys.exception()
        try:
            surroundings = capturing_surroundings(with_symbols=attempt.has(Decision.SYMBOLS))
            with surroundings, structured_code(attempt, self._functions), calls_with_sizes(attempt, self._reached):
                traced = record(wanted, attempt, survivors, self._reached)
                if attempt.has(Decision.PATHS):
                    from onnx_parity.exporter.recording.python_loops.escaped import refuse_escaped

                    refuse_escaped(traced.graph)
        except BaseException as error:
            clear_locals(error, outer)
            self._restore(survivors, attempt)
            if isinstance(error, (Reconsider, AxesFixed, FrozenValueError)):
                if not is_last:
                    self._earlier.append(survivors)
                raise
            try:
                survivors.remove()
            except KeptTensorError as kept:
                error.add_note(str(kept))  # What the program itself raised is more important.
            raise
        self._restore(survivors, attempt)
        survivors.remove()
        return traced

    def _restore(self, survivors: Survivors, attempt: Attempt) -> None:
        self._arguments.restore()
        survivors.restore(self._reached)
        if attempt.has_both_sides or attempt.variant.is_of_other_sizes:
            self._reached.restore()  # The program has also done what it does not for the sizes of the example.

    @property
    def _functions(self) -> list[Any]:
        return [function for function, _ in (*self._reached.functions, *self._reached.functions_of_libraries)]
