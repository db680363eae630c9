"""The surroundings of a recording with dynamic sizes, and errors of torch that a program catches there.

    try:
        return x.view(2, -1)
    except RuntimeError: ...

Where a function fails for some sizes only, such a `try` is a question about sizes, but torch checks less where sizes
are symbols. So a function that is called within one is tried with tensors without data, of several sizes. If it fails
for some of them, a condition that tells them apart is asked, like any other question of the program, and the error is
raised where it does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, pairwise, product
from typing import Any

import torch

from onnx_parity.exporter.errors import ExportError
from onnx_parity.exporter.expressions.conditions import Equal, GreaterOrEqual, LessOrEqual, Not, Or, Unequal
from onnx_parity.exporter.expressions.expression import Expression, Mul, Number, Symbol
from onnx_parity.exporter.expressions.integers_and_reals import Mod
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.patches.recording import loops_followed
from onnx_parity.exporter.recording.evaluate import outside_of_recording
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.sizes.size_node import expression_of_size
from onnx_parity.exporter.sizes.subscripts import SymbolicSubscripts
from onnx_parity.exporter.sizes.torchs_questions import torchs_questions
from onnx_parity.exporter.torch_inside.bytecode import errors_are_caught
from onnx_parity.exporter.torch_inside.code_objects import CodeType
from onnx_parity.exporter.torch_inside.frames import FrameType, asks_for_its_caller, current_frame
from onnx_parity.exporter.torch_inside.pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["with_dynamic_sizes"]

asks_for_its_caller(__file__)

_SIZES, _FEW_SIZES, _PRIMES = range(10), (0, 1, 3, 9), (5, 7)
#: What reads the number in a tensor, which has to have data for it.
_READS = frozenset({torch.Tensor.item, torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__})
#: The most elements of a tensor with data.
_MOST = 10_000
#: Which calls with numbers for sizes raise an error, and of how many this is kept.
_FAILS: dict[Any, bool] = {}
_MOST_CALLS = 10_000
#: The name of a symbol of torch.
_SYMBOL = re.compile(r"\bs\d+\b")
_REFUSAL = (
    "the program catches an error that depends on dynamic sizes, and that is raised for no condition that is known: "
    "branch on the sizes with `if`"
)


@contextmanager
def with_dynamic_sizes(recorder: Recorder, calling: CodeType) -> Iterator[None]:
    """The surroundings of a recording in which code of ours calls the program."""
    symbols = recorder.fakes.symbols
    assert symbols is not None
    symbols.stays_in_loop = loops_followed(recorder)
    symbols.decided_in_loop = partial(_decided_in_loop, recorder)
    symbols.decided_on_paths = partial(_decided_on_paths, recorder)
    symbols.catches_errors = lambda frame: errors_are_caught(frame, calling)
    with torchs_questions(), SymbolicSubscripts(recorder.shape_is_read, _CaughtErrors(recorder, calling).call):
        yield
    if symbols.caught is not None:
        raise symbols.caught


def _decided_on_paths(recorder: Recorder, frame: FrameType, question: Expression) -> bool | None:
    """The answer to a question on sizes on the path that the program runs on now, if both sides are recorded there."""
    joined = recorder.reader.joined
    if not joined or joined.isdisjoint((question, Not.of(question))):
        return None
    return recorder.reader.decided_on_paths(frame, question)


def _decided_in_loop(recorder: Recorder, frame: FrameType, question: Expression) -> bool | None:
    """The answer to a question that a frame asks in the body of a loop, if it differs between iterations, or behind one
    about what it has computed."""
    symbols, reader = recorder.fakes.symbols, recorder.reader
    if not (reader.bodies or reader.has_loops or reader.joined_at):
        return None
    names = [*map(str, question.free_symbols)]
    found = [reader.scalars.get(name) or recorder.size_sources.get(name, (None,))[0] for name in names]
    sources = [source for source in found if source is not None]
    if not reader.bodies or reader.bodies[-1].is_of_function:
        decided_behind = reader.decided_behind(sources, frame, question)
        if decided_behind is not None or not reader.joined_at or symbols is None or not symbols.has_value(question):
            return decided_behind
        # A size that a branch on values decides is read, like any value.
        before = reader.decided_before(question)
        return symbols.decided(question) if before is None else bool(before)
    is_of_values = any(map(reader.is_inside, sources)) or reader.is_joined(sources, frame)
    if not is_of_values and not (symbols is not None and symbols.iterations.concern(question)):
        return None
    decided: bool = recorder.reader.bodies[-1].decide(frame, question)
    return decided


class _CaughtErrors:
    """Asks for which sizes functions fail whose errors the program catches."""

    def __init__(self, recorder: Recorder, calling: CodeType) -> None:
        assert recorder.fakes.symbols is not None
        self._calling = calling
        self._reader, self._symbols = recorder.reader, recorder.fakes.symbols
        #: By the calls that were tried, whether they pass, unless that depends on sizes.
        self._pass: dict[Any, bool] = {}
        #: The conditions for which no error was raised where the program is now.
        self._hold: list[Expression] = []

    def call(self, calls: Callable[..., Any], function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function, or raise the error that it has for the example, if it depends on sizes and is caught."""
        is_caught = errors_are_caught(current_frame(1), self._calling)
        is_certain = is_caught and self._passes(function, args, kwargs)
        try:
            return calls(function, args, kwargs)
        except ExportError:
            raise
        except Exception as error:
            if is_certain:  # It fails as it is recorded, or for the sizes of this recording.
                self._reader.refusal = self._reader.refusal or refused_here(f"{_REFUSAL}{_in_brackets(error)}")
            raise

    def _passes(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call is known to pass. Raises its error if it fails for the example."""
        leaves, spec = tree_flatten((args, kwargs))
        sizes = [each for leaf in leaves for each in _sizes_of(leaf)]
        symbols = sorted({symbol for size in sizes for symbol in size.free_symbols}, key=str)
        if not symbols or not self._symbols.hints.keys() >= {*symbols} or any(map(_is_called, leaves)):
            return False

        def at(tried: Mapping[Symbol, int]) -> list[Any]:
            return [_of_sizes(leaf, tried, function) for leaf in leaves]

        def outcomes(tried: Iterable[Mapping[Symbol, int]]) -> list[tuple[Mapping[Symbol, int], bool]]:
            given = [each for each in tried if self._comes_here(sizes, each)]
            return [(each, _fails(function, at(each), spec)) for each in given]

        key = function, spec, *map(_described, leaves)
        if key in self._pass:
            return self._pass[key]
        if not any(fails for _, fails in outcomes(self._first(symbols))):
            self._pass[key] = True
            return True
        found = outcomes(self._all(symbols))
        if all(fails for _, fails in found):
            self._pass[key] = False
            return False
        for condition in _conditions(symbols, sizes, leaves):
            if all(condition.holds_at(tried) != fails for tried, fails in found):
                if not self._symbols.decided(condition):
                    raise _error_of(function, at(next(tried for tried, fails in found if fails)), spec) or refused_here(
                        _REFUSAL
                    )
                self._hold.append(condition)
                return True
        raise refused_here(_REFUSAL)

    def _comes_here(self, sizes: Sequence[Expression], tried: Mapping[Symbol, int]) -> bool:
        """Whether the program comes where it is now, as far as is known, with arguments of these sizes."""
        are_sizes = (GreaterOrEqual.of(size, Number(0)) for size in sizes)
        return all(each.holds_at(tried) for each in (*are_sizes, *self._hold))

    def _first(self, symbols: Sequence[Symbol]) -> Iterator[Mapping[Symbol, int]]:
        """The sizes of the recording, and a few others, by which most functions are known to pass for all. All are odd
        together too: beside an even size of the recording, all numbers of elements are even."""
        hints = self._symbols.hints
        yield hints
        yield from ({**hints, symbol: size} for symbol in symbols for size in _FEW_SIZES)
        yield from ({**hints, **dict.fromkeys(symbols, size)} for size in (1, *_PRIMES))
        yield {**hints, **dict(zip(symbols, cycle(_PRIMES), strict=False))}

    def _all(self, symbols: Sequence[Symbol]) -> Iterator[Mapping[Symbol, int]]:
        """The sizes of the recording, with each of the symbols at other sizes, and with two of them at others."""
        hints = self._symbols.hints
        yield hints
        yield from ({**hints, symbol: size} for symbol in symbols for size in _SIZES)
        for one, other in pairwise(symbols):
            yield from ({**hints, one: size, other: another} for size, another in product(_SIZES, _SIZES))
        yield from ({**hints, **dict.fromkeys(symbols, size)} for size in _SIZES)


def _sizes_of(leaf: Any) -> list[Expression]:
    sizes: Sequence[Any] = leaf.shape if isinstance(leaf, torch.Tensor) else [leaf]
    return [expression_of_size(size) for size in sizes if isinstance(size, torch.SymInt)]


def _described(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, *map(expression_of_size, (*leaf.shape, *leaf.stride()))
    return expression_of_size(leaf) if isinstance(leaf, torch.SymInt) else repr(leaf)


def _is_called(leaf: Any) -> bool:
    return callable(leaf) and not isinstance(leaf, (torch.Tensor, type))


def _of_sizes(leaf: Any, sizes: Mapping[Symbol, int], function: Callable[..., Any]) -> Any:
    """An argument where dynamic sizes are these."""
    if isinstance(leaf, torch.SymInt):
        return leaf.node.expr.at(sizes)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    shape, strides = (
        [int(expression_of_size(each).at(sizes)) for each in numbers] for numbers in (leaf.shape, leaf.stride())
    )
    has_data = function in _READS and torch.Size(shape).numel() < _MOST
    made = torch.empty_strided(shape, strides, dtype=leaf.dtype, device="cpu" if has_data else "meta")
    return made.zero_() if has_data else made


def _in_brackets(error: Exception) -> str:
    """The text of an error in brackets, unless it names torch's symbols, which mean nothing to the program's author."""
    return "" if _SYMBOL.search(str(error)) else f" ({error})"


def _fails(function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec) -> bool:
    """Whether a call raises an error, which is known where the program is recorded again."""
    key = function, spec, *((type(leaf), _described(leaf)) for leaf in leaves)
    if key not in _FAILS:
        if len(_FAILS) >= _MOST_CALLS:
            _FAILS.clear()
        _FAILS[key] = _error_of(function, leaves, spec) is not None
    return _FAILS[key]


def _error_of(function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec) -> Exception | None:
    args, kwargs = tree_unflatten(leaves, spec)
    with outside_of_recording(), torch.no_grad():
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  The program catches it, whatever it is.
            return error
    return None


def _conditions(symbols: Sequence[Symbol], sizes: Sequence[Expression], leaves: Sequence[Any]) -> Iterator[Expression]:
    """Conditions that may tell for which sizes a function does not fail, the likeliest first."""
    shapes = [[expression_of_size(size) for size in leaf.shape] for leaf in leaves if isinstance(leaf, torch.Tensor)]
    found = dict.fromkeys([*symbols, *sizes, *(Mul.of(*shape) for shape in shapes if shape)])
    numbers = [each for each in found if each.free_symbols]
    for one in numbers:
        for size in _SIZES:
            yield from (compare.of(one, Number(size)) for compare in (Equal, Unequal, GreaterOrEqual, LessOrEqual))
        yield from (Equal.of(Mod.of(one, Number(divisor)), Number(0)) for divisor in _SIZES[2:])
    for place, one in enumerate(numbers):
        for other in numbers[:place]:
            yield from (compare.of(one, other) for compare in (Equal, GreaterOrEqual, LessOrEqual))
            are_ones = [Equal.of(each, Number(1)) for each in (one, other)]
            yield Or.of(Equal.of(one, other), *are_ones)  # They broadcast together.
            yield from (Or.of(Equal.of(one, other), is_one) for is_one in are_ones)
