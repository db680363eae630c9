"""The vocabulary of the declaration files in `op_cases/` and `model_zoo/`: `op`, `model` and the input makers.

    elu   = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
    prelu = op(F.prelu, floats(2, 3, 4), weight=[floats(1), floats(3)])
    relu_ = op(lambda x: x.add(1).relu_(), floats(2, 3))
    vgg16 = model(torchvision.models.vgg16, image(64), dynamic={"x": {0: "batch"}})

A declaration is data. Its name is the attribute it is bound to; if that begins with an underscore, it makes no cells.
A keyword that is a list is swept: every combination is one case. Nothing is built before a cell runs.

Inputs are called `x`, or `x0`, `x1`, ... if there are several. A keyword whose value is a maker is another input, with
the name of the keyword.
"""

from __future__ import annotations

import functools
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch

from onnx_parity.exporter.request.marked_inputs import ListOf, OrNone
from onnx_parity.harness.axes import FLOATING, MIDDLE_OPSET, Breadth, Dtype, Selection, Shapes, Tier
from onnx_parity.harness.cases.declaration_checks import (
    check_dtypes,
    check_dynamic,
    check_inputs,
    check_nodes,
    check_program,
    check_sweeps,
    has_makers,
    makers_in,
)
from onnx_parity.harness.cases.dynamic_axes import DynamicAxes, named_axes
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.dtype_sets import (
    ALL_DTYPES,
    FLOATS,
    IEEE_FLOATS,
    INTS,
    MOVED_DTYPES,
    MOVED_NUMBERS,
    NUMBERS,
    SIGNED_INTS,
    WIDE_FLOATS,
)
from onnx_parity.harness.inputs import (
    Floats,
    Maker,
    bools,
    complexes,
    distinct,
    floats,
    given,
    image,
    ints,
    listed,
    name_of,
    numbers,
)
from onnx_parity.harness.record import Kind

__all__ = [
    "ALL_DTYPES", "BATCH", "BATCHES", "FLOATS", "IEEE_FLOATS", "INTS", "MOVED_DTYPES", "MOVED_NUMBERS", "NUMBERS",
    "SIGNED_INTS", "WIDE_FLOATS", "Case", "Declaration", "DeclarationError", "DynamicAxes", "Keywords", "ListOf",
    "Maker", "OrNone", "Rows", "bools", "complexes", "distinct", "floats", "given", "image", "ints", "listed", "model",
    "named_axes", "numbers", "op", "scripted",
]  # fmt: skip

#: A maker, or a tuple of makers and such tuples: `(floats(2, 3), floats(2, 3))` is one argument of two tensors.
Input: TypeAlias = "Maker | tuple[Input, ...]"
#: A list of combinations of keywords: `[{"kernel_size": 3, "stride": 2}, ...]`.
Rows: TypeAlias = "Sequence[Mapping[str, object]]"
#: Keywords that several declarations of a file share: `op(F.interpolate, floats(2, 3, 7), size=5, **_LINEAR)`.
Keywords: TypeAlias = dict[str, Any]

#: The first axis of the only input is dynamic, or of both inputs.
BATCH: DynamicAxes = {"x": {0: "batch"}}
BATCHES: DynamicAxes = {"x0": {0: "batch"}, "x1": {0: "batch"}}


def _draw_nothing() -> object:
    raise DeclarationError("the program of such a declaration is that of its cases, which build it themselves")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Declaration:
    """What `op` and `model` return: a program, its inputs, and the attributes that it is swept over."""

    program: Callable[..., object] = _draw_nothing
    inputs: tuple[Input, ...] = ()
    #: Every keyword with its values, and whether it was given as a list, in which case it is part of the label.
    keywords: tuple[tuple[str, tuple[object, ...], bool], ...] = ()
    rows: tuple[Mapping[str, object], ...] = ({},)
    kind: Kind
    dtypes: tuple[Dtype, ...]
    #: Whether some input has floats in the cell's dtype, so that the full tier can run every floating dtype.
    floating: bool = False
    #: Whether no dtypes were named, and the program is a function or class of torch, which has others.
    takes_turns: bool = False
    dynamic: DynamicAxes = field(default_factory=dict)
    #: For the name of each dynamic axis, the other sizes at which the cases run again.
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: The allowed error by dtype, relative to the element, or to 1 if the element is smaller. For other dtypes, the
    #: oracle's own tolerance.
    tolerance: Mapping[Dtype, float] = field(default_factory=dict)
    #: Whether -0.0 and 0.0 count as different.
    signed_zeros: bool = True
    because: str = ""
    #: Why the cases of an operator do not run again with a NaN among their inputs; empty if they do.
    without_nan: str = ""
    #: Why no sizes are drawn for the cases of an operator; empty if they are.
    without_draws: str = ""
    #: From an opset on, how many nodes this exporter's models have at most, those of branches and bodies among them.
    nodes: Mapping[int, int] = field(default_factory=dict)
    train: bool = False
    tier: Tier = Tier.DEFAULT
    file: Path
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def asked(self, shapes: Shapes) -> DynamicAxes:
        """The dynamic axes for the exporter. With static sizes, these are only those of lists and optional inputs."""
        if shapes is Shapes.DYNAMIC:
            return self.dynamic
        return {
            name: OrNone() if isinstance(wanted, OrNone) else wanted
            for name, wanted in self.dynamic.items()
            if isinstance(wanted, ListOf | OrNone)
        }

    def most_nodes(self, opset: int, dtype: Dtype) -> int | None:
        """How many nodes this exporter's model has at most at an opset; None if the declaration does not say, as of
        dtypes that only the full tier adds, for which runtimes may need casts."""
        since = [each for each in self.nodes if each <= opset] if dtype in self.dtypes else []
        return self.nodes[max(since)] if since else None

    def opsets(self, selection: Selection, breadth: Breadth, turn: int) -> tuple[int, ...]:
        return selection.opsets_of(breadth if self.tier is Tier.SMOKE else Breadth.SPREAD, turn)

    def select(self, name: str, selection: Selection) -> Iterator[tuple[Case, tuple[Dtype, ...]]]:
        """The cases that a selection contains, each with its dtypes."""
        dtypes = self._dtypes_of(selection)
        for case in self.cases(name):
            yield case, dtypes

    def _dtypes_of(self, selection: Selection) -> tuple[Dtype, ...]:
        """Smoke uses the first dtype, default the declared ones, and full every floating one too."""
        if selection.dtypes is not None:
            possible = {*self.dtypes, *(FLOATING if self.floating else ())}
            return tuple(dtype for dtype in selection.dtypes if dtype in possible)
        match selection.tier:
            case Tier.SMOKE:
                return self.dtypes[:1]
            case Tier.DEFAULT:
                return self.dtypes
            case Tier.FULL:
                return tuple(dict.fromkeys((*self.dtypes, *FLOATING))) if self.floating else self.dtypes

    def cases(self, name: str) -> Iterator[Case]:
        """Every combination of the swept values, in the order in which they are written."""
        labels: set[str] = set()
        for arguments, swept in _combinations(self.rows, self.keywords):
            attributes = ",".join(f"{keyword}={spell(value)}" for keyword, value in swept.items())
            label = f"{name}[{attributes}]" if attributes else name
            if label in labels:
                raise DeclarationError(f"{self.place}: {label} is declared twice. Drop one of the two values.")
            labels.add(label)
            yield Case(self, name, label, arguments)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Listing(Declaration, ABC):
    """A declaration of whatever a package lists. All of its cases run at the same opsets, which the tier decides."""

    #: The opsets of the full tier.
    full_opsets: tuple[int, ...]

    def opsets(self, selection: Selection, breadth: Breadth, turn: int) -> tuple[int, ...]:
        if selection.opsets is not None:
            return selection.opsets
        match selection.tier:
            case Tier.SMOKE:
                return ()
            case Tier.DEFAULT:
                # The newest that both of torch's exporters write natively.
                return (MIDDLE_OPSET,)
            case Tier.FULL:
                return self.full_opsets

    @abstractmethod
    def select(self, name: str, selection: Selection) -> Iterator[tuple[Case, tuple[Dtype, ...]]]: ...

    def cases(self, name: str) -> Iterator[Case]:
        for case, _ in self.select(name, Selection(tier=Tier.FULL)):
            yield case


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One program of a declaration, with its attributes: `elu[alpha=0.5]`."""

    declaration: Declaration
    name: str
    label: str
    arguments: Mapping[str, object]

    @property
    def family(self) -> str:
        return self.declaration.file.stem


def _combinations(
    rows: Iterable[Mapping[str, object]], keywords: Sequence[tuple[str, tuple[object, ...], bool]]
) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    """The arguments of every case, and those that are part of its label."""
    for row in rows:
        for values in itertools.product(*(values for _, values, _ in keywords)):
            arguments, swept = dict(row), dict(row)
            for (keyword, _, is_swept), value in zip(keywords, values, strict=True):
                arguments[keyword] = value
                if is_swept:
                    swept[keyword] = value
            yield arguments, swept


@dataclass(frozen=True, slots=True)
class _Declare:
    """The class of `op` and `model`: the same call, with another kind of declaration and another default tier."""

    kind: Kind
    usual_tier: Tier

    def __call__(
        self,
        program: Callable[..., object],
        /,
        *inputs: Input,
        rows: Sequence[Mapping[str, object]] = (),
        dtypes: Sequence[torch.dtype] = (),
        dynamic: DynamicAxes | None = None,
        sizes: Mapping[str, Sequence[int]] | None = None,
        tolerance: float | Mapping[torch.dtype, float] | None = None,
        signed_zeros: bool = True,
        because: str = "",
        without_nan: str = "",
        without_draws: str = "",
        nodes: Mapping[int, int] | None = None,
        train: bool = False,
        tier: str | None = None,
        **keywords: object,
    ) -> Declaration:
        """Declare a program and the inputs to run it with.

        A function is called as `program(*inputs, **keywords)`. An `nn.Module` class, and any `program` of a model, is
        called with the keywords and returns a module, which is called with the inputs. A keyword that is a list has
        each of its values in turn; a tuple is one value. `rows` gives the combinations instead:
        `rows=[{"kernel_size": 3, "stride": 2}, ...]`.

        `dynamic` names symbolic axes, and `sizes` the other sizes at which to run them (the default is 1, three more
        than the example's, and 0 where the program takes it). `tolerance` replaces the oracle's own, in all dtypes or
        in those that it names, and `signed_zeros=False` accepts zeros of either sign; each needs a `because`.
        An operator's cases run again in onnxruntime with a NaN in the place of a number, unless `without_nan` says why
        not, and the full tier draws other sizes for them, unless `without_draws` does. `nodes={17: 1}` says that this
        exporter's models have one node at most from opset 17 on; other exporters' may have more. `tier` is the smallest
        one in which the cases run: by default smoke for operators, and default for models unless they are small.
        """
        # The caller's frame is the declaration; its file and line are the declaration's identity.
        frame = sys._getframe(1)
        file, line = Path(frame.f_code.co_filename), frame.f_lineno
        place = f"{file}:{line}"
        if (tolerance is None and signed_zeros) != (not because):
            raise DeclarationError(
                f"{place}: tolerance= and signed_zeros= need a because=, and because= needs one of them. Write both."
            )
        check_program(place, program, is_model=self.kind is Kind.MODEL)
        check_inputs(place, inputs)
        check_sweeps(place, keywords, rows)
        check_dtypes(place, dtypes)
        check_nodes(place, {} if nodes is None else nodes)
        swept = tuple(
            (keyword, tuple(value) if isinstance(value, list) else (value,), isinstance(value, list))
            for keyword, value in keywords.items()
        )
        values = [*itertools.chain.from_iterable(values for _, values, _ in swept)]
        values += itertools.chain.from_iterable(row.values() for row in rows)
        cases = (arguments for arguments, _ in _combinations(rows or ({},), swept))
        # If no keyword contains an input, all cases have the same inputs.
        different = cases if has_makers(values) else itertools.islice(cases, 1)
        check_dynamic(place, inputs, different, dynamic or {}, sizes or {})
        makers = [*makers_in(inputs), *(value for value in values if isinstance(value, Maker))]
        floating = any(isinstance(maker, Floats) and maker.dtype is None for maker in makers)
        return Declaration(
            program=program,
            inputs=inputs,
            keywords=swept,
            rows=tuple(rows) or ({},),
            kind=self.kind,
            dtypes=_dtypes(place, makers, dtypes, floating, counted=nodes is not None),
            floating=floating,
            takes_turns=floating and not dtypes and nodes is None and _is_of_torch(program),
            dynamic=dynamic or {},
            sizes={symbol: tuple(each) for symbol, each in (sizes or {}).items()},
            tolerance=_tolerances(place, tolerance),
            signed_zeros=signed_zeros,
            because=because,
            without_nan=without_nan,
            without_draws=without_draws,
            nodes=dict(nodes or {}),
            train=train,
            tier=_tier(place, tier) if tier is not None else self.usual_tier,
            file=file,
            line=line,
        )


op = _Declare(Kind.OPERATOR, Tier.SMOKE)
model = _Declare(Kind.MODEL, Tier.DEFAULT)


def scripted(function: Callable[..., object]) -> Callable[..., object]:
    """TorchScript of a function, compiled when it is first called, because compiling takes milliseconds."""

    @functools.cache
    def compiled() -> Callable[..., object]:
        script: Callable[..., object] = torch.jit.script(function)
        return script

    @functools.wraps(function)
    def program(*arguments: object, **keywords: object) -> object:
        return compiled()(*arguments, **keywords)

    return program


def _is_of_torch(program: Callable[..., object]) -> bool:
    module = getattr(program, "__module__", None) or torch.__name__
    return not isinstance(program, torch.nn.Module) and module.partition(".")[0] == torch.__name__


def _dtypes(
    place: str, makers: list[Maker], dtypes: Sequence[torch.dtype], floating: bool, *, counted: bool
) -> tuple[Dtype, ...]:
    """The cells' dtypes: those named, or else float32, or the first input's own dtype if all inputs have their own.

    Where there are NaN or infinities, float64 is one of them: what becomes of these is written otherwise in each dtype
    for which runtimes have other kernels. The nodes that are counted are those of the one dtype.
    """
    if not dtypes:
        pinned = [maker.dtype for maker in makers if maker.dtype is not None]
        if pinned and len(pinned) == len(makers):
            return (_dtype_of(place, pinned[0]),)
        return (Dtype.FLOAT32, *([Dtype.FLOAT64] if not counted and any(each.has_special for each in makers) else []))
    named = tuple(_dtype_of(place, dtype) for dtype in dtypes)
    for dtype in named:
        if floating and dtype not in FLOATING:
            raise DeclarationError(f"{place}: floats(...) cannot be {dtype}. Use numbers(...), which has any dtype.")
    return named


def _dtype_of(place: str, dtype: torch.dtype) -> Dtype:
    try:
        return name_of(dtype)
    except ValueError:
        raise DeclarationError(f"{place}: no cell can be {dtype!r}, but torch.{', torch.'.join(Dtype)}.") from None


def _tier(place: str, tier: str) -> Tier:
    try:
        return Tier(tier)
    except ValueError:
        raise DeclarationError(f"{place}: tier={tier!r} is not a tier. Write one of {', '.join(Tier)}.") from None


def _tolerances(place: str, tolerance: float | Mapping[torch.dtype, float] | None) -> dict[Dtype, float]:
    if tolerance is None:
        return {}
    if isinstance(tolerance, Mapping):
        return {_dtype_of(place, dtype): each for dtype, each in tolerance.items()}
    return dict.fromkeys(Dtype, tolerance)


def spell(value: object) -> str:
    """A value as it is written in a cell's id: without spaces and quotes."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, tuple):
        return f"({','.join(map(spell, value))})"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return "".join(str(value).split())
