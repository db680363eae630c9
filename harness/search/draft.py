"""A program that is being drawn: its values so far, which rules choose operands from, and lines that rules add.

Every line is run as soon as it is added. So shapes, dtypes and values of all operands are known to the rules, which
choose attributes that are valid for them, and bring values into the domain of an operator before they add it. Nothing
is tried and taken back, with one exception: where sizes vary, each line is also run at other sizes, and one that fixes
a size is left out.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import torch
from torch.utils._pytree import tree_leaves

from onnx_parity.harness.cases.dynamic_axes import example_sizes, named_axes
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.inputs import Bools, Distinct, Floats, Maker, Numbers
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.search.generated import NAMES, GeneratedProgram, Input, Line
from onnx_parity.harness.search.parts import Part, is_drawn, plain_tensors

#: The dtypes of each kind, with the weights by which they are drawn.
KINDS = {
    "float": {torch.float32: 12, torch.float64: 2, torch.float16: 2, torch.bfloat16: 1},
    "int": {torch.int64: 6, torch.int32: 3, torch.uint8: 1, torch.int8: 1},
    "bool": {torch.bool: 1},
}
KINDS["number"] = KINDS["float"] | KINDS["int"]
KINDS["any"] = KINDS["number"] | {torch.bool: 2}
#: Sizes of axes, among them none and one element, with their weights.
SIZES = {0: 1, 1: 8, 2: 16, 3: 16, 4: 12, 5: 8, 7: 4}
#: The sizes of axes that vary: at the example, and the other one. No fixed axis has one of them.
VARYING = {"n": (6, 3), "m": (8, 9)}
#: A value of more elements than this is no operand of an operator that makes more of them.
LARGEST = 1500


class RefusedError(Exception):
    """torch does not run a line that a rule has added: the rule is wrong."""


class NoOperandError(Exception):
    """No value has the property that a rule asks for. Another rule is drawn."""


class FixedSizeError(Exception):
    """A line that fixes a size that varies. It is left out."""


@dataclass(eq=False)
class Value:
    """A value of the program: its name, and the tensors that it is at the example's and at other sizes."""

    name: str
    tensor: torch.Tensor
    other: torch.Tensor
    uses: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def rank(self) -> int:
        return self.tensor.ndim

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def is_float(self) -> bool:
        return self.tensor.is_floating_point()

    def varies(self, axis: int) -> bool:
        return self.tensor.shape[axis] != self.other.shape[axis]

    def size(self, axis: int) -> str:
        """The size of an axis as source code, which is right at other sizes too."""
        return f"{self.name}.shape[{axis}]" if self.varies(axis) else str(self.tensor.shape[axis])

    @property
    def fixed_axes(self) -> list[int]:
        return [axis for axis in range(self.rank) if not self.varies(axis)]

    def range(self) -> tuple[float, float]:
        """The least and the greatest element at either size; not finite if an element is not."""
        ends = [math.inf, -math.inf]
        for tensor in (self.tensor, self.other):
            if tensor.numel():
                low, high = (end.item() for end in torch.aminmax(tensor.double()))
                if not math.isfinite(low + high):
                    return -math.inf, math.inf
                ends = [min(ends[0], low), max(ends[1], high)]
        return (ends[0], ends[1]) if ends[0] <= ends[1] else (0.0, 0.0)


class Draft:
    """A program so far."""

    def __init__(self, seed: int, *, constants: bool = True) -> None:
        """With `constants`, some inputs without varying sizes are constants of the program."""
        self.constants = constants
        self.random = random.Random(seed)
        self.seed = seed
        self.rule = ""
        self.inputs: list[Input] = []
        self.lines: list[Line] = []
        self.values: dict[str, Value] = {}
        #: The symbols that axes of this program may have.
        self.symbols = dict(self.random.sample(list(VARYING.items()), self.random.choice((0, 0, 0, 1, 2))))
        self.parts: dict[str, Part] = {}
        self._owner = SimpleNamespace()
        names = {**NAMES, "self": self._owner}
        self._names: tuple[dict[str, object], dict[str, object]] = names, {**names}
        self._fixed: set[int] = set()
        self.fixed_sizes = 0

    # --- choices ------------------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def of(self, choices: Sequence[str]) -> str:
        return self.random.choice(choices)

    def axis(self, value: Value, among: Sequence[int] | None = None) -> int:
        """An axis of a value, sometimes counted from the end."""
        axis = self.random.choice(range(value.rank) if among is None else among)
        return axis - value.rank if self.chance(0.3) else axis

    def number(self, dtype: torch.dtype) -> str:
        """A number that tensors of the dtype can be combined with, as source code."""
        if dtype.is_floating_point:
            return repr(round(self.random.uniform(-2, 2), 2) or 0.5)
        return "True" if dtype is torch.bool else str(self.random.randint(0, 3))

    # --- values -------------------------------------------------------------------------------------------------------

    def value(
        self,
        kind: str = "any",
        ranks: tuple[int, int] = (0, 5),
        where: Callable[[Value], bool] = lambda value: True,
        *,
        fresh: float = 0.12,
    ) -> Value:
        """A value of this kind and rank with this property, preferably one that is not used yet; an input if there is
        none. An input of a property that is not its kind and rank is drawn until it has it, at most some times."""
        dtypes = KINDS[kind]
        fit = [
            each
            for each in self.values.values()
            if each.dtype in dtypes and ranks[0] <= each.rank <= ranks[1] and each.tensor.numel() <= LARGEST
            if where(each)
        ]
        if fit and not self.chance(fresh):
            return self._used(self.random.choices(fit, [4 if not each.uses else 1 for each in fit])[0])
        for _ in range(20):
            shape, dynamic = self._shape(self.random.randint(ranks[0], max(ranks[0], min(ranks[1], 4))))
            made = self.fresh(kind, shape, dynamic=dynamic)
            if where(made):
                return made
            del self.values[made.name]
            self.inputs.pop()
        raise NoOperandError(f"no value of {kind} with the property that {self.rule} asks for")

    def _used(self, value: Value) -> Value:
        value.uses += 1
        return value

    def _shape(self, rank: int) -> tuple[tuple[int, ...], dict[int, tuple[str, int]]]:
        shape = self.random.choices(list(SIZES), list(SIZES.values()), k=rank)
        dynamic = {}
        for axis in range(rank):
            if self.symbols and self.chance(0.4):
                name = self.random.choice(list(self.symbols))
                shape[axis], dynamic[axis] = self.symbols[name][0], (name, self.symbols[name][1])
        return tuple(shape), dynamic

    def fresh(
        self,
        kind: str,
        shape: Sequence[int],
        *,
        low: float | None = None,
        high: float | None = None,
        distinct: bool = False,
        dynamic: dict[int, tuple[str, int]] | None = None,
        dtype: torch.dtype | None = None,
    ) -> Value:
        """A new input; one without varying sizes is sometimes a constant of the program."""
        dtype = dtype or self.random.choices(list(KINDS[kind]), list(KINDS[kind].values()))[0]
        shape = tuple(shape)
        maker: Maker
        if distinct:
            maker = Distinct(shape, dtype=dtype)
        elif dtype is torch.bool:
            maker = Bools(shape, dtype=dtype)
        elif dtype.is_floating_point:
            maker = Floats(shape, dtype=dtype, low=-3.0 if low is None else low, high=3.0 if high is None else high)
        else:
            maker = Numbers(
                shape, dtype=dtype, low=int(-4 if low is None else low), high=int(5 if high is None else high)
            )
        return self.given(maker, dynamic or {})

    def like(self, value: Value, kind: str = "float", *, distinct: bool = False, broadcast: bool = False) -> Value:
        """A new input of the shape of a value, or of one that can be broadcast to it."""
        shape, dynamic = list(value.shape), {}
        for axis in range(value.rank):
            if value.varies(axis):
                name = self._symbol(value, axis)
                dynamic[axis] = (name, self.symbols[name][1])
            if broadcast and self.chance(0.3):
                shape[axis] = 1
                dynamic.pop(axis, None)
        left_out = self.random.randint(0, value.rank) if broadcast and self.chance(0.3) else 0
        dynamic = {axis - left_out: each for axis, each in dynamic.items() if axis >= left_out}
        return self.fresh(kind, shape[left_out:], distinct=distinct, dynamic=dynamic)

    def _symbol(self, value: Value, axis: int) -> str:
        """The symbol whose size an axis has."""
        sizes = (value.shape[axis], value.other.shape[axis])
        for name, both in self.symbols.items():
            if sizes == both:
                return name
        raise NoOperandError(f"no input has an axis of the size of axis {axis} of {value.name}")

    def given(self, maker: Maker, dynamic: dict[int, tuple[str, int]]) -> Value:
        """An input that this maker makes."""
        constant = self.constants and not dynamic and bool(self.values) and self.chance(0.3)
        name = f"{'w' if constant else 'x'}{len(self.inputs)}"
        self.inputs.append(Input(name, maker, dynamic, constant))
        seed = stable_seed(self.seed, "0")
        tensor, other = (self.inputs[-1].make(seed, resized=resized) for resized in (False, True))
        self._fixed |= {tensor.untyped_storage().data_ptr()}
        for names, each in zip(self._names, (tensor, other), strict=True):
            names[name] = each
        self.values[name] = Value(name, tensor, other)
        return self.values[name]

    def within(self, value: Value, low: float, high: float) -> Value:
        """The value, or one computed from it, whose elements are all in this range."""
        least, greatest = value.range()
        if low <= least and greatest <= high:
            return value
        if math.isinf(high):
            return self.add(f"torch.nan_to_num({{0}}.abs(), 1.0, 2.0) + {low}", value)
        if not value.is_float:
            return (
                self.add(f"{{0}} % {max(int(high), 1)}", value)
                if low <= 0
                else self.add(f"{{0}}.remainder({int(high - low)}) + {int(low)}", value)
            )
        return self.add(f"torch.sigmoid(torch.nan_to_num({{0}}, 0.0)) * {high - low} + {low}", value)

    def writable(self, value: Value) -> bool:
        """Whether a program may write to it: it is no view of an input, and no two elements are one in memory."""
        tensor = value.tensor
        return (
            tensor.untyped_storage().data_ptr() not in self._fixed
            and tensor.numel() > 0
            and torch._debug_has_internal_overlap(tensor) == 0
        )

    # --- lines --------------------------------------------------------------------------------------------------------

    def add(self, text: str, *operands: Value) -> Value:
        """Add a line that computes one value."""
        return self.add_all(text, *operands, makes=1)[0]

    def add_all(self, text: str, *operands: Value, makes: int) -> list[Value]:
        """Add a line that computes some values; none, if it writes to one."""
        names = tuple(f"v{len(self.lines)}" + (f"_{number}" if makes > 1 else "") for number in range(makes))
        reads = tuple(dict.fromkeys(each.name for each in operands))
        called = text.format(*(each.name for each in operands))
        line = Line(f"{', '.join(names)} = {called}" if makes else called, names, reads, self.rule)
        code = compile(line.text, "<line>", "exec")
        try:
            exec(code, self._names[1])
        except Exception as error:
            if any(each.tensor.shape != each.other.shape for each in operands):
                self.fixed_sizes += 1
                raise FixedSizeError(line.text) from error
            raise RefusedError(f"{line.text}: {error}") from error
        try:
            exec(code, self._names[0])
        except Exception as error:
            raise RefusedError(f"{line.text}: {error}") from error
        made = []
        for name in names:
            tensor, other = (every[name] for every in self._names)
            assert isinstance(tensor, torch.Tensor), line.text
            if not isinstance(other, torch.Tensor) or tensor.ndim != other.ndim:
                self.fixed_sizes += 1
                raise FixedSizeError(line.text)
            made.append(Value(name, tensor, other))
        self.lines.append(line)
        self.values.update((each.name, each) for each in made)
        return made

    def call(self, part: Part) -> None:
        """Add a line that calls a part with inputs of its own, some of whose axes may vary."""
        try:
            makers = part.makers()
            if not makers or not all(map(is_drawn, makers.values())):
                return
            varying = self._varying(part, makers) if self.chance(0.5) else {}
            operands = [self.given(maker, varying.get(name, {})) for name, maker in makers.items()]
            module = part.module()
            leaves = tree_leaves(module.program(*(each.tensor.clone() for each in operands)))
        except Exception as error:
            raise RefusedError(f"{part.case.label}: {error_line(error)}") from error
        makes = len(plain_tensors(leaves))
        # Numbers are tensors in an exported model if they depend on values.
        if not makes or any(isinstance(each, bool | int | float) for each in leaves):
            return
        name = f"{part.name}_{len(self.parts)}"  # Labels that differ in signs, and dtypes, have one name.
        self.parts[name] = part
        setattr(self._owner, name, module)
        places = ", ".join(f"{{{number}}}" for number in range(len(operands)))
        self.add_all(f"self.{name}({places})", *operands, makes=makes)
        self.lines[-1] = replace(self.lines[-1], part=name)

    def _varying(self, part: Part, makers: Mapping[str, Maker]) -> dict[str, dict[int, tuple[str, int]]]:
        """The axes of a part's inputs that vary: the symbol of each, and its other size."""
        declaration = part.case.declaration
        sizes = example_sizes(declaration.dynamic, makers, declaration.place)
        found: dict[str, dict[int, tuple[str, int]]] = {}
        for name, axes in declaration.dynamic.items():
            for axis, symbol in named_axes(axes).items():
                own, size = f"{symbol}_{len(self.inputs)}", sizes[symbol]
                others = [each for each in declaration.sizes.get(symbol, (1, size + 3)) if each != size]
                if others:
                    _, other = self.symbols.setdefault(own, (size, self.random.choice(others)))
                    found.setdefault(name, {})[axis] = own, other
        return found

    def undo(self) -> None:
        """Take back the last line, which computed values and wrote to none."""
        for name in self.lines.pop().makes:
            del self.values[name]

    def results(self) -> Iterator[Value]:
        """The values that lines have computed."""
        return (self.values[name] for line in self.lines for name in line.makes if name in self.values)

    def finished(self, *, side_by_side: bool = False) -> GeneratedProgram:
        """The program. It returns all results, or what nothing uses, with some exceptions, and some of what is used."""
        read = {name for line in self.lines for name in line.reads}
        computed = [each.name for each in self.results()]
        outputs = [name for name in computed if side_by_side or self.chance(0.9 if name not in read else 0.15)]
        return GeneratedProgram(
            tuple(self.inputs), tuple(self.lines), tuple(outputs or computed[-1:]), self.seed, self.parts, side_by_side
        )
