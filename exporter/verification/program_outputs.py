"""Runs an exported program in torch, and determines the expected outputs of its model with their tolerances."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import Array, Float64Array, in_pairs, is_float, to_array
from onnx_parity.exporter.containers import closed, opened
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.exporter.graph.graph import Graph
from onnx_parity.exporter.program_state.module_state import attribute_at
from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.recording.results import LISTS, PLAIN, Kind, Returned, flattened
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.dynamo import uncompiled
from onnx_parity.exporter.verification.full_precision import in_full_precision
from onnx_parity.exporter.verification.module_copy import copied, copied_tensor
from onnx_parity.exporter.verification.oracle import (
    JUMP,
    NOISE_FACTOR,
    Expected,
    Verdict,
    is_surely_right,
    judge,
    typical_magnitude,
)
from onnx_parity.exporter.verification.reference import MOVES, Measurement, Twin
from onnx_parity.exporter.verification.trials import Trial

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["ProgramOutputs", "every_node", "without_fused_attention"]

#: Operators of ONNX that compute one step after another, as if each were a graph of its own.
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
#: In graphs with at most this many nodes, the tolerance of an element follows from its own sensitivity to the inputs.
#: In larger ones thousands of roundings add up, and the tolerance follows from torch's largest error over the output.
_SMALL = 20
#: Operators of ONNX whose results may be zeros of either sign. A sum that begins at 0, and one that begins at the first
#: term, which may be -0, differ in the sign of a zero.
_SUMS = frozenset(
    {
        "Attention", "AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "CumSum", "DFT", "DeformConv",
        "Det", "Einsum", "GRU", "Gemm", "GlobalAveragePool", "GridSample", "LSTM", "MatMul", "MatMulInteger", "Mean",
        "QLinearConv", "QLinearMatMul", "RNN", "ReduceMean", "ReduceSum", "ReduceSumSquare", "Resize", "STFT", "Sum",
        "Upsample",
    }
)  # fmt: skip
#: 0.0 and -0.0 are equal, and either may be the larger one. onnxruntime's Where makes 0.0 of -0.0.
_CHOICES = frozenset({"Clip", "GlobalMaxPool", "Max", "MaxPool", "Min", "ReduceMax", "ReduceMin", "Relu", "Where"})
#: They are defined by a formula that is 0.0 for -0.0, or, for a value that is its own mean, a zero of either sign.
_FORMULAS = frozenset({"Celu", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "Selu", "Sign"})
_WITHOUT_SIGNS = _SUMS | _CHOICES | _FORMULAS
_FLOATS = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})

_Program = Callable[..., Any]
_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ProgramOutputs:
    """The outputs of an exported program in torch. A copy of the module is run, so that the user's is unchanged."""

    def __init__(
        self, source: Source, returned: Returned, nodes: int, operators: Sequence[Collection[str]] = ()
    ) -> None:
        """`nodes` is the number of nodes in the model's graph, and `operators` are those that each output is computed
        by, at any depth."""
        self._source = source
        self._returned = returned
        self._is_small = nodes <= _SMALL and all(map(_RECURRENT.isdisjoint, operators))
        self._differentiates = source.recorded is not None and source.recorded.differentiates
        self._signed_zeros = [_has_signed_zeros(source.recorded, each) for each in operators]
        self._rounded_by = 0.0 if source.recorded is None else _rounded_by(source.recorded)
        #: A description of the current inputs, for messages.
        self._what = ""
        #: torch's largest error in each output of a large program, and the least noise of an element of a small one,
        #: as a share of the output's typical element. It is measured once. For other inputs, half of the tolerance
        #: that follows from it is taken to be right.
        self._noise: list[float] = []
        in_another_dtype = partial(self._call, as_exported=False)
        self._twin = Twin(source.program, torch.float64, in_another_dtype, source.written)
        self._coarse = Twin(source.program, torch.float32, in_another_dtype, source.written)

    @classmethod
    def of(cls, program: ONNXProgram) -> ProgramOutputs:
        model, returned = program.model, program.returned
        if {*returned.kinds} & {*LISTS, Kind.OPTIONAL}:
            # An output of the model has any number of the values that are compared.
            operators = [{node.op_type for node in every_node(model)}]
        else:
            operators = [_operators_before(output, model) for output in model.graph.outputs[: returned.outputs]]
        return cls(program.source, returned, len(model.graph), operators)

    def outputs(self, trial: Trial) -> list[torch.Tensor]:
        """The tensors that it returns. Numbers become tensors, lists contribute their items, and None nothing."""
        self._what = trial.what
        return self._call(copied(self._source.program, written=self._source.written), (trial.args, dict(trial.kwargs)))

    def judge(self, measured: Measurement[_Arguments], outputs: Sequence[Array]) -> tuple[Verdict, Sequence[Expected]]:
        """The verdict on outputs of the model, with what is expected if they are wrong.

        The program is run in float64 only as often as it takes to find the outputs right.
        """
        values = measured.values
        noise = self._noise or [0.0] * len(values)
        if len(values) == len(outputs) and all(map(is_surely_right, outputs, values, noise)):
            return Verdict(True, "", None), []
        for expected in measured.steps():
            verdict = judge(outputs, expected)
            if verdict.passed:
                break
        if not self._noise and measured.exact is not None and (not self._is_small or verdict.passed):
            self._noise = [
                _least_noise(each) if self._is_small else _relative_noise(value, exact)
                for value, exact, each in zip(values, measured.exact, expected, strict=True)
            ]
        return verdict, expected

    def expected(self, trial: Trial) -> list[Expected]:
        """The expected outputs of the model."""
        return self.measured(trial).expected()

    def measured(self, trial: Trial) -> Measurement[_Arguments]:
        """The outputs, and what is known of their errors."""
        values = [to_array(tensor) for tensor in self.outputs(trial)]
        tensors = [in_pairs(tensor) for tensor in trial.tensors()]
        dtypes = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
        by = max((torch.finfo(dtype).eps for dtype in dtypes), default=0.0)
        # What is rounded to halves inside does not follow from how the result depends on the inputs.
        is_followed = self._is_small and by > 0 and by >= self._rounded_by
        return Measurement(
            values,
            (trial.args, dict(trial.kwargs)),
            self._twin,
            self._coarse,
            seeds=range(MOVES) if is_followed else (),
            moved_by=by,
            again=self._arrays,
            rounded_by=self._rounded_by,
            signed_zeros=self._signed_zeros,
        )

    def _arrays(self, arguments: _Arguments) -> list[Array]:
        return [
            to_array(tensor)
            for tensor in self._call(copied(self._source.program, written=self._source.written), arguments)
        ]

    def _call(self, program: _Program, arguments: _Arguments, *, as_exported: bool = True) -> list[torch.Tensor]:
        """The outputs. Constants beside them, as the dtype of a cache, have to be those of the export if it runs
        `as_exported`, and not in another dtype."""
        args, kwargs = closed(pytree.tree_map_only(torch.Tensor, copied_tensor, arguments))
        if self._differentiates:
            self._require_gradients(args, kwargs)
        if isinstance(program, torch.nn.Module) and self._source.training is not None:
            # The module of an ExportedProgram has a fixed mode, and raises NotImplementedError.
            with suppress(NotImplementedError):
                program.train(self._source.training)
        leaves = pytree.tree_leaves((args, kwargs))
        reached, given = PythonState([program, *leaves], follows_code=True), PythonState(leaves)
        try:
            with torch.set_grad_enabled(self._differentiates), uncompiled(), in_full_precision():
                result = program(*args, **kwargs)
                return [*self._tensors(result, as_exported), *self._written(program, args, kwargs)]
        finally:
            given.restore()
            # A cache that this call has filled is of its sizes and its dtype.
            if reached.holds_new(lambda value: isinstance(value, torch.Tensor)):
                reached.restore()

    def _require_gradients(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Let the inputs require gradients whose examples do: the program may ask for theirs."""
        recorded = self._source.recorded
        assert recorded is not None
        given = self._source.inputs_by_place(*opened((args, kwargs)))
        for tensor, known in zip(given, recorded.inputs, strict=True):
            if isinstance(tensor, torch.Tensor) and known.example.requires_grad:
                tensor.requires_grad_()

    def _tensors(self, result: Any, as_exported: bool) -> list[torch.Tensor]:
        returned = self._returned
        leaves = _leaves(result, returned)
        if len(leaves) != len(returned.kinds):
            raise VerificationError(
                f"for {self._what} the program returns {len(leaves)} values, but it returned {len(returned.kinds)} "
                "when it was exported: the number of results must not depend on the inputs"
            )
        tensors = []
        for leaf, kind, plain in zip(leaves, returned.kinds, returned.plain, strict=True):
            if kind in (Kind.TENSOR, Kind.COMPLEX):
                tensors.append(leaf.detach())
            elif kind is Kind.NUMBER:
                tensors.append(_of_number(leaf))
            elif kind is Kind.OPTIONAL:
                tensors.extend([] if leaf is None else [leaf.detach()])
            elif kind in LISTS:
                tensors.extend(_of_number(item) if kind is Kind.NUMBERS else item.detach() for item in leaf)
            elif as_exported and isinstance(plain, PLAIN) and leaf != plain:
                raise VerificationError(
                    f"for {self._what} the program returns {leaf!r}, but when it was exported it returned {plain!r}, "
                    "which is a constant of the model: return it as a tensor"
                )
        return tensors

    def _written(self, program: _Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The new values of inputs, buffers and attributes that the program wrote to, where the model returns them."""
        inputs = self._source.inputs_by_place(*opened((args, kwargs)))
        values = []
        for end in self._returned.written:
            if end.place is not None:
                written = inputs[end.place]
                assert isinstance(written, torch.Tensor), "what is written to is a tensor"
                values.append(written)
            else:
                assert isinstance(program, torch.nn.Module)
                value = attribute_at(program, end.name)
                values.append(value.detach().clone() if isinstance(value, torch.Tensor) else _of_number(value))
        return values


@contextmanager
def without_fused_attention() -> Iterator[None]:
    """A context in which the modules of attention call one operator after the other."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _relative_noise(value: Array, exact: Float64Array) -> float:
    """torch's largest error in an output, as a share of its typical element; 0 if it is too large to be noise."""
    typical = typical_magnitude(exact)
    if not is_float(value.dtype) or value.shape != exact.shape or not typical:
        return 0.0
    finite = np.isfinite(value) & np.isfinite(exact)
    noise = float(np.abs(np.where(finite, value.astype(np.float64) - exact, 0.0)).max()) / typical
    return noise if noise <= JUMP.get(value.dtype, 0.0) else 0.0


def _least_noise(expected: Expected) -> float:
    """The noise of the element with the least tolerance, as a share of the output's typical element."""
    typical = 0.0 if expected.centre is None else typical_magnitude(expected.centre)
    if expected.tolerance is None or not typical:
        return 0.0
    noise = float(expected.tolerance.min()) / NOISE_FACTOR / typical
    return noise if noise <= JUMP.get(expected.value.dtype, 0.0) else 0.0


def _leaves(result: Any, returned: Returned) -> list[Any]:
    """The leaves of a result in the structure that was exported. If the structure differs, all its leaves."""
    if any(kind in LISTS for kind in returned.kinds):
        with suppress(ValueError):
            return returned.spec.flatten_up_to(result)
    return flattened(opened(result))[0]


def _of_number(number: Any) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)


def _rounded_by(graph: Graph) -> float:
    """The precision of the narrowest floats that the program computes with."""
    outputs = (output for node in graph.all_live_nodes() for output in node.outputs)
    dtypes = {graph.autocast, *(output.dtype for output in outputs if output is not None)}
    return max((torch.finfo(dtype).eps for dtype in dtypes if dtype in _FLOATS), default=0.0)


def every_node(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes of a model at any depth, also in its functions."""
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()


def _operators_before(output: ir.Value, model: ir.Model) -> set[str]:
    """The operators that an output is computed by; all of a model that has functions, or graphs within its graph."""
    if model.functions or any(node.graph is not model.graph for node in model.graph.all_nodes()):
        return {node.op_type for node in every_node(model)}
    found, waiting, seen = set[str](), [output], set[ir.Value]()
    while waiting:
        node = waiting.pop().producer()
        if node is not None:
            found.add(node.op_type)
            further = [each for each in node.inputs if each is not None and each not in seen]
            seen.update(further)
            waiting += further
    return found


def _has_signed_zeros(graph: Graph | None, operators: Collection[str]) -> bool:
    """Whether torch defines the signs of zeros in the results, and ONNX those in the model's.

    A product of complex numbers also has the terms that are 0, which decide over the sign of a zero.
    """
    return not (graph is not None and graph.has_complex) and _WITHOUT_SIGNS.isdisjoint(operators)
