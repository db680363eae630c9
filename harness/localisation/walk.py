"""Finds the first operator that diverges: the program is exported and run piece by piece, and compared with torch.

A piece is a window of operators, with all their results as outputs. It is run in the runtime, in torch, and in torch
with float64. The outputs of the runtime for one piece are the inputs of the next, so that errors grow as in the whole
program. Only the values of one window are kept, and those that a later piece needs. The first operator that diverges is
then run with torch's own values, which distinguishes a wrong export from an earlier error that is magnified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch._ops import OpOverload

from onnx_parity.exporter.arrays import to_array, to_tensor
from onnx_parity.exporter.graph.graph import Node, Value, operator_name
from onnx_parity.exporter.verification.float64 import in_dtype
from onnx_parity.exporter.verification.oracle import Expected, Verdict, expect, judge
from onnx_parity.harness.localisation.pieces import CANNOT_RUN, Piece, Recording, run, run_or_borrow
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.subjects.runtime_interface import NoKernelError
from onnx_parity.harness.transformations.transformation import DeclinedError

_UNINITIALISED = frozenset(
    {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
)

#: How often an operator is run to see whether it draws random numbers. A single truth value is the same by chance.
_DRAWS = 8
#: The number of operators in a piece. Larger pieces need fewer exports and more memory.
WINDOW = 32


#: Exports a piece with an example, its second argument, and runs it with inputs, its third argument.
Execute = Callable[[Piece, Sequence[torch.Tensor], Sequence[torch.Tensor]], Sequence[object]]


#: Compares outputs of a runtime with the expected ones.
Judge = Callable[[Sequence[object], Sequence[Expected]], Verdict]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of the program, and the distance of the runtime's values from torch's after it."""

    number: int
    operator: str
    #: The user's line and the module path; empty if unknown.
    where: str
    module: str
    #: Line and module for a reader, with the branch or iteration.
    place: str
    verdict: Verdict
    #: The reason why it could not be exported or run alone; empty if it could.
    error: str = ""

    @property
    def diverges(self) -> bool:
        return bool(self.error) or not self.verdict.passed

    @property
    def growth(self) -> float:
        """The error divided by the tolerance, which is at most 1 for a correct result."""
        metrics = self.verdict.metrics
        if metrics is None or not metrics.headroom:
            return 0.0 if self.verdict.passed else math.inf
        return 1.0 / metrics.headroom

    def __str__(self) -> str:
        return f"{self.operator}, {self.place}" if self.place else self.operator


class Walk:
    """Runs a program window by window, in the exporter and runtime and in torch."""

    def __init__(
        self,
        recording: Recording,
        execute: Execute,
        *,
        window: int = WINDOW,
        signed_zeros: bool = True,
        judge: Judge = judge,
    ) -> None:
        self._judge = judge
        self._recording = recording
        self._signed_zeros = signed_zeros
        self._execute = execute
        self._window = window
        self._read = recording.read()
        #: torch's values, the same in float64, the runtime's values, and torch's values for the example.
        self._torch: dict[Value, torch.Tensor] = {}
        self._exact: dict[Value, torch.Tensor] = {}
        self._ours: dict[Value, torch.Tensor] = {}
        self._example: dict[Value, torch.Tensor] = {}
        #: The largest number of values that were in memory at once, of the four kinds together.
        self.most_held = 0

    def steps(self, inputs: Sequence[torch.Tensor], example: Sequence[torch.Tensor]) -> Iterator[Step]:
        recording = self._recording
        self._torch = recording.starting(inputs)
        self._ours = dict(self._torch)
        self._exact = {value: widen(tensor) for value, tensor in self._torch.items()}
        self._example = recording.starting(example)
        last = recording.last_uses()
        kinds = (self._torch, self._exact, self._ours, self._example)
        for start, window in _windows(recording.nodes, self._window):
            yield from self._follow(start, window)
            self.most_held = max(self.most_held, sum(map(len, kinds)))
            for held in kinds:
                for value in [value for value in held if last.get(value, -1) < start + len(window)]:
                    del held[value]

    @property
    def outputs(self) -> list[torch.Tensor]:
        """torch's results of the recording, after the whole program has been run."""
        return [self._torch[value] if value.constant is None else value.constant for value in self._recording.outputs]

    def _follow(self, start: int, nodes: Sequence[Node]) -> Iterator[Step]:
        for node in nodes:
            self._torch.update(run(node, self._torch))
            self._exact.update(self._exactly(node))
            self._example.update(run_or_borrow(node, self._example, self._torch))
        outputs = [output for node in nodes for output in node.outputs if output is not None and output in self._read]
        piece = Piece(self._recording, nodes, outputs)
        try:
            example = [self._example[value] for value in piece.taken]
            given = self._execute(piece, example, [self._ours[value] for value in piece.taken])
        except (NoKernelError, DeclinedError):
            # The cell itself was not refused: a piece may have other types at its ends than the program has there.
            yield from self._one_by_one(start, nodes, "")
            return
        except Exception as error:  # noqa: BLE001  Exporter and runtime may raise anything: it belongs to one operator.
            yield from self._one_by_one(start, nodes, error_line(error))
            return
        results = dict(zip(outputs, given, strict=True))
        for number, node in enumerate(nodes, start):
            own = [output for output in node.outputs if output in results]
            verdict = self._judge([results[output] for output in own], [self._expected(output) for output in own])
            for output in own:
                self._ours[output] = self._carry(output, results[output])
            if _is_undetermined(node) and not self._is_certain(node):
                verdict = Verdict(True, "", None)
                for output in own:
                    # The values are random, and not wrong. torch continues with the runtime's values.
                    self._torch[output] = self._ours[output]
                    self._exact[output] = widen(self._ours[output])
            yield self._step(number, node, verdict)

    def _one_by_one(self, start: int, nodes: Sequence[Node], error: str) -> Iterator[Step]:
        """Run the operators of a piece that could not be run one by one. For one that cannot alone, torch's values are
        used. It diverges if there is an error."""
        if len(nodes) > 1:
            for number, node in enumerate(nodes, start):
                yield from self._follow(number, [node])
            return
        (node,) = nodes
        for output in node.outputs:
            if output is not None:
                self._ours[output] = self._torch[output]
        yield self._step(start, node, Verdict(True, "", None), error)

    def _is_certain(self, node: Node) -> bool:
        """Whether an operator that may draw random numbers has one result here: dropout of no element, say."""
        if operator_name(node.op) in _UNINITIALISED:
            return False
        with torch.random.fork_rng(devices=[]):
            for seed in range(_DRAWS):
                torch.manual_seed(seed)
                if any(not _is_same(value, self._torch[output]) for output, value in run(node, self._torch)):
                    return False
        return True

    def _step(self, number: int, node: Node, verdict: Verdict, error: str = "") -> Step:
        origin, place = node.origin, self._recording.place(node)
        return Step(number, operator_name(node.op), origin.where, origin.module, place, verdict, error)

    def _exactly(self, node: Node) -> dict[Value, torch.Tensor]:
        """Run the node in float64. If torch has no float64 kernel for it, use torch's own result."""
        try:
            with in_dtype(torch.float64):
                return dict(run(node, self._exact))
        except CANNOT_RUN:
            return {output: widen(self._torch[output]) for output in node.outputs if output is not None}

    def _expected(self, output: Value) -> Expected:
        return expected_of(self._torch[output], self._exact[output], signed_zeros=self._signed_zeros)

    def _carry(self, output: Value, given: object) -> torch.Tensor:
        """The input of later pieces: the runtime's output, unless its dtype or shape is wrong."""
        from_torch = self._torch[output]
        if not isinstance(given, np.ndarray) or given.shape != tuple(from_torch.shape):
            return from_torch
        tensor = to_tensor(given)
        return tensor.to(from_torch.device) if tensor.dtype is from_torch.dtype else from_torch


def expected_of(value: torch.Tensor, exact: torch.Tensor, *, signed_zeros: bool) -> Expected:
    """The expected output of a runtime, from torch's result and the result in float64."""
    twin = to_array(exact).astype(np.float64) if value.is_floating_point() else None
    return expect(to_array(value), twin, signed_zeros=signed_zeros)


def widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _windows(nodes: Sequence[Node], size: int) -> Iterator[tuple[int, Sequence[Node]]]:
    """The nodes in windows, each with the number of its first node. A node with random results ends its window, because
    torch continues with the runtime's results."""
    start = 0
    for number, node in enumerate(nodes, 1):
        if number - start == size or number == len(nodes) or _is_undetermined(node):
            yield start, nodes[start:number]
            start = number


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(torch.isclose(one, other, rtol=0, atol=0, equal_nan=True).all())


def _is_undetermined(node: Node) -> bool:
    """Whether the results of a node are random, or uninitialized memory."""
    op = node.op
    drawn = isinstance(op, OpOverload) and torch.Tag.nondeterministic_seeded in op.tags
    return drawn or operator_name(op) in _UNINITIALISED
