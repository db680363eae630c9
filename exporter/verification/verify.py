"""`verify=True`: checks, loads and runs an exported model, and compares every output with torch's."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from msgspec.structs import replace

from onnx_parity.exporter.arrays import Array, is_float, to_array
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.exporter.files import write
from onnx_parity.exporter.graph.graph import operator_name
from onnx_parity.exporter.progress import progress
from onnx_parity.exporter.request.opsets import NEWEST_OF_ONNXRUNTIME
from onnx_parity.exporter.runtime.sessions import (
    ReferenceSession,
    RuntimeSession,
    errors_of_empty_axes,
    errors_of_runtimes,
    item_by_item,
)
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.tracing.silent import silent
from onnx_parity.exporter.verification.oracle import (
    JUMP,
    Expected,
    judge,
    least_tolerance,
)
from onnx_parity.exporter.verification.program_outputs import ProgramOutputs, every_node, without_fused_attention
from onnx_parity.exporter.verification.reference import MOVES
from onnx_parity.exporter.verification.trials import (
    Trial,
    at_sizes,
    at_sizes_with_other_values,
    other_decisions,
    other_sides,
    other_values,
    sizes_of,
    trials,
)

if TYPE_CHECKING:
    from onnx_parity.exporter.graph.assumptions import Assumption
    from onnx_parity.exporter.program import ONNXProgram
    from onnx_parity.exporter.request.marked_inputs import Given
    from onnx_parity.exporter.verification.reference import Measurement

__all__ = ["is_rounding", "verify"]

#: How many tolerances an output may be wrong by for which its rounding is looked at, and the most bytes of weights.
#: Averages of 1,024 equal elements, which a runtime adds up one after the other, were wrong by nine on one machine.
_MOST_BY_ROUNDING = 16.0
_MOST_TO_WIDEN = 32 << 20
#: Operators that onnxruntime computes from numbers near 1, as exp(x) - 1: however small a result is, it may be wrong by
#: what 1 is rounded by.
_THROUGH_ONE = frozenset({"Celu", "Elu", "Selu", "Sigmoid"})
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
#: How often a program that draws random numbers is run again. A few of these may be the same by chance.
_RUNS = 8
#: Operators with an argument whose elements have to be in order.
_OF_ORDERED = frozenset({"aten::_pack_padded_sequence", "aten::bucketize", "aten::searchsorted"})


#: What onnxruntime 1.31 says of a product of matrices of which one side is an empty batch, and the other none, or is
#: transposed.
_UNLIKE_BATCHES = "operand cannot broadcast on dim"
#: Operators by which, or by what onnxruntime 1.31 fuses with them, it ends the process if a batch is empty.
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
_OF_ATTENTION = frozenset({"Attention", "Softmax"})


#: Operators by which torch 2.13 ends the process if there are indices, and no bag for them.
_OF_BAGS = frozenset({"aten::_embedding_bag", "aten::_embedding_bag_forward_only"})


def verify(program: ONNXProgram) -> None:
    """Raise `VerificationError` at the first difference or error."""
    with torch.random.fork_rng(devices=[]):
        _Verification(program).run()


class _Verification:
    """The verification of one model against its program in torch."""

    def __init__(self, program: ONNXProgram) -> None:
        self._program = program
        self._in_torch = ProgramOutputs.of(program)
        self._session = _session(program)
        self._operators = _operators_of(program)
        nodes = program.model.graph.all_nodes()
        operators = {node.op_type for node in nodes}
        self._is_recurrent = not _RECURRENT.isdisjoint(operators)
        self._ends_the_process = self._is_recurrent or not _OF_ATTENTION.isdisjoint(operators)

    def run(self) -> None:
        source, keeps_order = self._program.source, not (_OF_ORDERED | _OF_BAGS).isdisjoint(self._operators)
        if any(isinstance(each, torch.Tensor) and each.is_meta for each in tree_leaves((source.args, source.kwargs))):
            raise VerificationError(
                "an example input is on the meta device, which has no data to run the model on: give an example with "
                "values, or export without verify=True"
            )
        for trial in trials(source):
            self._compare([trial])
        values = other_values(source, keeps_order)
        if not self._compare_at_other_sizes(keeps_order, with_values=bool(values)):
            self._compare(values)
        for trial in itertools.chain(other_decisions(source), other_sides(source)):
            self._compare([trial])

    def _compare_at_other_sizes(self, keeps_order: bool, with_values: bool) -> bool:
        """Whether values other than the example's were compared too, which is tried once `with_values`."""
        source = self._program.source
        assumptions = self._program.assumptions
        stated = [each for each in assumptions if each.is_stated or each.is_of_kernels]
        sizes = sizes_of(source, _on_both_sides(assumptions))
        pending = deque(sizes.changes())
        tried: list[dict[str, int]] = [sizes.example]
        refused: list[str] = []
        accepted = 0
        compared_values = False
        while pending:
            change = pending.popleft()
            reasons: list[str] = []
            for variant in sizes.variants(change):
                if variant in tried or any(each.holds_for(variant) is False for each in stated):
                    continue
                tried.append(variant)
                if with_values:
                    with_values = False
                    trial = at_sizes_with_other_values(source, sizes, variant, keeps_order)
                    compared_values = not self._compare([trial])
                    if compared_values:
                        accepted += 1
                        break
                reason = self._compare(at_sizes(source, sizes, variant, keeps_order))
                if not reason:
                    accepted += 1
                    break
                reasons.append(f"{', '.join(f'{name}={size}' for name, size in variant.items())}: {reason}")
            else:
                refused += reasons
                pending.extendleft(reversed(list(sizes.apart(change))) if reasons else ())
        if refused and not accepted:
            raise VerificationError(
                "the export asked for dynamic axes, but the program itself fails in torch at every other size of them:"
                "\n  - "
                + "\n  - ".join(refused)
                + "\nExport with these axes static, or write the program for any size."
            )
        return compared_values

    def _compare(self, alternatives: Iterable[Trial]) -> str:
        """Compare the model with the program, for the inputs that it accepts first. Returns the first error of the
        program if it accepts none of them."""
        reasons = []
        for trial in alternatives:
            with progress(f"verifying the model for {trial.what}"), silent() if trial.invented else nullcontext():
                reason = self._compared(trial)
            if not reason:
                return ""
            reasons.append(reason)
        return reasons[0] if reasons else ""

    def _compared(self, trial: Trial) -> str:
        program = self._program
        if trial.invented and self._ends_the_process and _has_nothing(trial):
            return (
                "onnxruntime ends the process by recurrent layers of nothing, and onnx.reference does not run them all"
            )
        if trial.invented and not _OF_BAGS.isdisjoint(self._operators) and _has_no_bag(trial):
            return "ValueError: torch ends the process if there are indices, and no bag for them"
        try:
            measured = self._in_torch.measured(trial)
        except VerificationError:
            raise
        except Exception as error:
            if not trial.invented:
                raise VerificationError(f"the program fails in torch for {trial.what}: {error}") from error
            return f"{type(error).__name__}: {error}"
        if trial.invented and _has_nothing(trial) and _are_undefined(measured.values):
            return ""  # A mean of nothing, for example, which runtimes refuse.
        try:
            results = self._results(trial)
        except errors_of_empty_axes() as error:
            if trial.invented and self._ends_the_process and _has_nothing(trial):
                return f"onnx.reference does not run the model: {type(error).__name__}: {error}"
            if trial.invented and _has_nothing(trial) and _UNLIKE_BATCHES in str(error):
                return f"neither runtime runs the model: {error}"
            if not isinstance(error, errors_of_runtimes()):
                raise
            message = f"the model fails for {trial.what}: {str(error).rstrip()}"
            raise self._failed(message, trial, measured.expected(closely=False)) from error
        outputs = [to_array(result) for result in results]
        verdict, expected = self._in_torch.judge(measured, outputs)
        if not verdict.passed and (others := self._in_onnxruntime(trial)) is not None:
            # onnx.reference has defects of its own there: it loses the sizes of what a loop stacks.
            outputs = others
            verdict, expected = self._in_torch.judge(measured, outputs)
        if not verdict.passed and self._is_right_without_fused_attention(trial, measured, outputs):
            return ""
        if not verdict.passed and len(outputs) == len(expected):
            verdict = judge(outputs, self._without_random(trial, expected, outputs))
        if not verdict.passed and not is_rounding(
            program.model, program.feeds(trial.args, trial.kwargs), expected, outputs, measured
        ):
            message = (
                f"the outputs of the model differ from those of the program for {trial.what}: "
                f"{verdict.detail}. The outputs are {', '.join(program.output_names)}"
            )
            raise self._failed(message, trial, expected)
        return ""

    def _is_right_without_fused_attention(
        self, trial: Trial, measured: Measurement[Any], outputs: Sequence[Array]
    ) -> bool:
        """Whether the outputs are what torch gives without its fused kernels of attention where those give NaN, as they
        do for a query that sees no key, and otherwise what it gives with them."""
        values = measured.values
        undefined = [np.isnan(value) if is_float(value.dtype) else np.zeros(value.shape, bool) for value in values]
        shapes = [value.shape for value in values]
        if shapes != [output.shape for output in outputs] or not any(map(np.any, undefined)):
            return False
        triples = list(zip(undefined, values, outputs, strict=True))
        defined = [np.where(is_nan, value, output) for is_nan, value, output in triples]
        if not self._in_torch.judge(measured, defined)[0].passed:
            return False
        with without_fused_attention():
            unfused = self._in_torch.measured(trial)
            others = zip(undefined, outputs, unfused.values, strict=True)
            return self._in_torch.judge(unfused, [np.where(*each) for each in others])[0].passed

    def _failed(self, message: str, trial: Trial, expected: Sequence[Expected]) -> VerificationError:
        """The error of a model that fails, or returns other results than the program, for the inputs of a trial."""
        beyond = self._beyond(trial)
        error = VerificationError(message + beyond)
        error.trial, error.expected, error.is_assumed_otherwise = trial, expected, bool(beyond)
        return error

    def _beyond(self, trial: Trial) -> str:
        """Which assumption of the model does not hold for the inputs of a trial, and what to do then."""
        broken = self._program.broken_assumption(trial.args, trial.kwargs)
        if broken is None:
            return ""
        return (
            f"\nThe model assumes {broken.condition}{broken.origin.in_brackets}, which does not hold for these inputs: "
            f"state it if it always does, assume=[{broken.condition!r}], or change that line."
        )

    def _results(self, trial: Trial) -> list[torch.Tensor]:
        """The outputs that are the program's. Those of nothing are onnx.reference's: there, onnxruntime refuses what
        torch computes, such as a mean, and ends the process by some operators. It is asked only for what onnx.reference
        refuses."""
        feeds, outputs = self._program.feeds(trial.args, trial.kwargs), self._program.returned.outputs
        if trial.invented and _has_nothing(trial):
            try:
                return item_by_item(self._of_nothing.run(feeds)[:outputs])
            except errors_of_empty_axes():
                if self._ends_the_process:
                    raise
        return item_by_item(self._session.run(feeds)[:outputs])

    def _in_onnxruntime(self, trial: Trial) -> list[Array] | None:
        """The outputs of nothing that onnxruntime gives; None where it is not asked, or refuses."""
        if not (trial.invented and _has_nothing(trial)) or self._ends_the_process:
            return None
        feeds, outputs = self._program.feeds(trial.args, trial.kwargs), self._program.returned.outputs
        try:
            return [to_array(each) for each in item_by_item(self._session.run(feeds)[:outputs])]
        except errors_of_runtimes():
            return None

    @cached_property
    def _of_nothing(self) -> ReferenceSession:
        return ReferenceSession(self._program.model)

    def _without_random(self, trial: Trial, expected: Sequence[Expected], outputs: list[Array]) -> list[Expected]:
        """The expected outputs. Outputs that differ between runs in torch are random, and any value is accepted."""
        first = self._in_torch.outputs(trial)
        is_random = [False] * len(first)
        for _ in range(_RUNS):
            before = torch.random.get_rng_state()
            again = self._in_torch.outputs(trial)
            pairs = zip(is_random, first, again, strict=True)
            is_random = [known or not _are_alike(one, other) for known, one, other in pairs]
            if torch.equal(before, torch.random.get_rng_state()):
                break
        wanted = []
        for want, got, varies in zip(expected, outputs, is_random, strict=True):
            fits = got.dtype == want.value.dtype and got.shape == want.value.shape
            wanted.append(Expected(got) if fits and varies else want)
        return wanted


def is_rounding(
    model: ir.Model,
    feeds: Mapping[str, Given],
    expected: Sequence[Expected],
    outputs: Sequence[Array],
    measured: Measurement[Any] | None = None,
) -> bool:
    """Whether outputs are wrong by few tolerances, and the model gives the program's where nothing is rounded.

    A sum of many elements that are alike is wrong by more than PyTorch's if it is added up in another order. A model
    with halves, be it within, may round too often, which float64 would hide.

    Outputs that are wrong by more, though by little beside their largest elements, have to be within what the model
    gives if each of its operators is as wrong as it may be alone: a product of a number with a runtime's sigmoid, of
    which each small element is wrong by a unit of 1, is wrong by as many units. If nothing in the output is larger, as
    where all probabilities are small, only such operators may be a reason.

    A program in float64 is rounded itself, and nothing wider says by how much: where large numbers cancel, as in
    x - logsigmoid(x), the program and the model are both within what these inexact operators give.

    With what was `measured` of the program, its own operators may be the reason too, each as wrong as it may be: those
    of x - tanh(x), where x is small, leave no digit. Whether an element is NaN may depend on that, as by acos near 1.
    """
    is_near = judge(outputs, [*map(_with_more_roundings, expected)]).passed
    is_little = is_near or (len(outputs) == len(expected) and all(map(_is_little, outputs, expected)))
    nodes = [*every_node(model)]
    may_round = is_little or any(map(_is_of_float64, expected))
    may_round |= not _THROUGH_ONE.isdisjoint(node.op_type for node in nodes) or measured is not None
    may_round &= not any(value.dtype in _HALVES for node in nodes for value in node.outputs)
    weights = (each.const_value for each in model.graph.initializers.values())
    if not may_round or sum(each.nbytes for each in weights if each is not None) > _MOST_TO_WIDEN:
        return False
    try:
        session = ReferenceSession(model, wide=True)
        exact = _arrays(session.run(feeds), expected)
        rounded = [
            each.astype(want.value.dtype) if is_float(each.dtype) else each
            for each, want in zip(exact, expected, strict=True)
        ]
        if judge(rounded, expected).passed:
            if is_near:
                return True
        elif not any(map(_is_of_float64, expected)):
            return measured is not None and measured.explains(expected, rounded, outputs)
        inexact = _with_inexact_operators(session, feeds, exact, expected, is_little=is_little)
        known = [wide if _is_of_float64(each) else each for wide, each in zip(inexact, expected, strict=True)]
        if judge(rounded, known).passed and judge(outputs, inexact).passed:
            return True
        return measured is not None and measured.explains(expected, rounded, outputs)
    except errors_of_empty_axes():
        return False


def _arrays(outputs: Sequence[Any], expected: Sequence[Expected]) -> list[Array]:
    return [to_array(each) for each in item_by_item(outputs[: len(expected)])]


def _with_more_roundings(expected: Expected) -> Expected:
    tolerance = expected.tolerance
    return expected if tolerance is None else replace(expected, tolerance=_MOST_BY_ROUNDING * tolerance)


def _is_of_float64(expected: Expected) -> bool:
    return expected.value.dtype == np.float64


def _is_little(output: Array, expected: Expected) -> bool:
    """Whether an output is wrong by no more than rounding may change its largest element by, in float32: what has
    cancelled has fewer digits than its dtype."""
    value = expected.value
    if (output.dtype, output.shape) != (value.dtype, value.shape) or expected.centre is None:
        return np.array_equal(output, value)
    finite = np.isfinite(output) & np.isfinite(expected.centre)
    error = np.abs(np.where(finite, output.astype(np.float64) - expected.centre, 0.0))
    share = max(JUMP[value.dtype], JUMP[np.dtype(np.float32)])
    return float(error.max(initial=0.0)) <= share * float(np.abs(expected.centre[finite]).max(initial=0.0))


class _Inexact:
    """Makes the results of operators as wrong as they may be alone: of `every` operator, or of those that runtimes
    compute from numbers near 1."""

    def __init__(self, dtype: np.dtype[Any], seed: int, *, every: bool) -> None:
        self._dtype, self._every = dtype, every
        self._signs = np.random.default_rng(seed)
        #: The largest number that was seen.
        self.largest = 0.0

    def __call__(self, op_type: str, values: Array) -> Array:
        if not self._every and op_type not in _THROUGH_ONE:
            return values
        self.largest = max(self.largest, float(np.abs(values[np.isfinite(values)]).max(initial=0.0)))
        typical = 1.0 if op_type in _THROUGH_ONE else 0.0
        return values + self._signs.choice((-1.0, 1.0), values.shape) * least_tolerance(values, self._dtype, typical)


def _with_inexact_operators(
    session: ReferenceSession, feeds: Mapping[str, Given], exact: Sequence[Array], expected: Sequence[Expected], *,
    is_little: bool,
) -> list[Expected]:  # fmt: skip
    """What is expected, with the tolerances that follow from those that each operator has alone, in the dtype of the
    output. Of float64, whatever cancels may be a reason, as far as the largest number inside is rounded."""
    dtypes = {each.value.dtype for each in expected if is_float(each.value.dtype)}
    spread = [np.zeros(each.shape) for each in exact]
    for dtype, seed in itertools.product(dtypes, range(MOVES)):
        inexact = _Inexact(dtype, seed, every=is_little or dtype == np.float64)
        outputs = _arrays(session.run_inexactly(feeds, inexact), expected)
        most = np.inf if is_little or dtype != np.float64 else JUMP[dtype] * inexact.largest
        for number, other in enumerate(outputs):
            if expected[number].value.dtype != dtype:
                continue
            with np.errstate(invalid="ignore"):
                moved = np.abs(other.astype(np.float64) - exact[number].astype(np.float64))
            spread[number] = np.fmax(spread[number], np.where(np.isfinite(moved) & (moved <= most), moved, 0.0))
    return [
        each if each.tolerance is None else replace(each, tolerance=each.tolerance + wider)
        for each, wider in zip(expected, spread, strict=True)
    ]


def _has_no_bag(trial: Trial) -> bool:
    """Whether offsets are too few for a bag, if the last of them is its end."""
    return any(not tensor.is_floating_point() and tensor.numel() < 2 for tensor in trial.tensors())


def _has_nothing(trial: Trial) -> bool:
    """Whether an input has no elements."""
    return any(not tensor.numel() for tensor in trial.tensors())


def _are_undefined(values: Sequence[Array]) -> bool:
    """Whether the program's outputs are NaN alone."""
    values = [value for value in values if value.size]
    return bool(values) and all(is_float(value.dtype) and bool(np.isnan(value).all()) for value in values)


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one != one) & (other != other)).all())


def _operators_of(program: ONNXProgram) -> frozenset[str]:
    """The operators of the program that nodes of the model were written for."""
    origins = (node.meta.get("origin") for node in every_node(program.model))
    return frozenset(operator_name(origin.op) for origin in origins if origin is not None)


def _session(program: ONNXProgram) -> RuntimeSession | ReferenceSession:
    """Check and load the model. onnx.reference runs models of opsets that onnxruntime does not support."""
    runtime = None
    if program.opset_version <= NEWEST_OF_ONNXRUNTIME:
        try:
            runtime = program.runtime_session()
        except errors_of_runtimes() as error:
            raise VerificationError(f"onnxruntime cannot load the model: {error}") from error
    try:
        onnx.checker.check_model(write.serialize_outline(program.model)[0], full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise VerificationError(f"the model is not valid ONNX: {error}") from error
    return runtime if runtime is not None else ReferenceSession(program.model)


#: Up to which size of an axis the sides of a condition are looked for.
_LARGEST = 256


def _on_both_sides(assumptions: Sequence[Assumption]) -> dict[str, list[int]]:
    """For each condition on one axis, the least size above 1 where it holds, and the least where it does not."""
    further: dict[str, list[int]] = {}
    for each in assumptions:
        names = [] if each.of_sizes is None else sorted(str(symbol) for symbol in each.of_sizes.free_symbols)
        if len(names) == 1:
            for side in (True, False):
                found = (size for size in range(2, _LARGEST) if each.holds_for({names[0]: size}) is side)
                further.setdefault(names[0], []).extend(itertools.islice(found, 1))
    return further
