"""A generated program: its inputs, and the lines of Python that compute its outputs from them."""

from __future__ import annotations

import itertools
import linecache
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch

from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.inputs import Maker, name_of
from onnx_parity.harness.search.parts import Part

#: Names that a line may use besides those of inputs and of values.
NAMES: Mapping[str, object] = {
    "torch": torch, "F": torch.nn.functional, "math": math, "inf": math.inf, "nan": math.nan,
}  # fmt: skip
#: The numbers of the files that modules seem to come from.
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a program, or a constant of it."""

    name: str
    maker: Maker
    #: The axes whose size varies: the name of each, and its size other than the example's.
    dynamic: Mapping[int, tuple[str, int]]
    constant: bool = False

    @property
    def dtype(self) -> torch.dtype:
        assert self.maker.dtype is not None
        return self.maker.dtype

    def make(self, seed: int, *, resized: bool) -> torch.Tensor:
        maker = self.maker
        if resized and self.dynamic:
            maker = maker.resize({axis: size for axis, (_, size) in self.dynamic.items()})
        return maker.make(stable_seed(seed, self.name), name_of(self.dtype)).clone()


@dataclass(frozen=True, slots=True)
class Line:
    """One statement: the names that it binds, those that it reads, and the rule that added it."""

    text: str
    makes: tuple[str, ...]
    reads: tuple[str, ...]
    rule: str
    #: The attribute of the part that it calls; empty if it calls none.
    part: str = ""


@dataclass(frozen=True)
class GeneratedProgram:
    """A program of PyTorch as source code. `draw` is the seed of its inputs' values."""

    inputs: tuple[Input, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    draw: int = 0
    #: Modules that lines call, by their attribute: `self.lstm(x0)`.
    parts: Mapping[str, Part] = field(default_factory=dict)
    #: Whether its lines are declared cases with inputs of their own, each of which is judged as its cells are.
    side_by_side: bool = False

    @property
    def arguments(self) -> tuple[Input, ...]:
        """The inputs that are not constants."""
        return tuple(each for each in self.inputs if not each.constant)

    @property
    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        named = {each.name: {axis: name for axis, (name, _) in each.dynamic.items()} for each in self.arguments}
        return {name: axes for name, axes in named.items() if axes}

    def values(self, *, resized: bool = False, turn: int = 0) -> tuple[torch.Tensor, ...]:
        """The arguments: those of the example, or with other values at another turn, or of the other sizes."""
        return tuple(each.make(stable_seed(self.draw, str(turn)), resized=resized) for each in self.arguments)

    def constants(self) -> dict[str, torch.Tensor]:
        seed = stable_seed(self.draw, "0")
        return {each.name: each.make(seed, resized=False) for each in self.inputs if each.constant}

    @cached_property
    def source(self) -> str:
        """A module class, whose `forward` takes the arguments."""
        return self._class()

    def module(self) -> torch.nn.Module:
        """The program, whose lines Python's tracebacks show."""
        return _with_parts(_make_module(self.source, self.constants()), self.parts)

    def scriptable(self) -> torch.nn.Module:
        """The program with its constants as buffers, because TorchScript has no global tensors."""
        constants = self.constants()
        module = _make_module(self._class(before=[f"{name} = self.{name}" for name in constants]), {})
        for name, constant in constants.items():
            module.register_buffer(name, constant)
        return _with_parts(module, self.parts)

    def _class(self, before: Sequence[str] = ()) -> str:
        names = ", ".join(["self", *(each.name for each in self.arguments)])
        body = [
            *before,
            *(line.text for line in self.lines),
            f"return ({''.join(f'{each}, ' for each in self.outputs)})",
        ]
        return "\n".join(
            ["class Program(torch.nn.Module):", f"    def forward({names}):", *(f"        {text}" for text in body), ""]
        )

    def bound(self, arguments: Sequence[torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
        """Each value with its name, when a line binds it; the inputs come first."""
        owner = SimpleNamespace(**{name: part.module() for name, part in self.parts.items()})
        names: dict[str, Any] = {**NAMES, **self.constants(), "self": owner}
        names.update(zip((each.name for each in self.arguments), arguments, strict=True))
        yield from ((each.name, names[each.name]) for each in self.inputs)
        for line in self.lines:
            exec(line.text, names)
            yield from ((name, names[name]) for name in line.makes)

    def with_lines(self, lines: Sequence[Line], outputs: Sequence[str] | None = None) -> GeneratedProgram:
        """The program with only these lines, and with the inputs and outputs that they still have."""
        made = {name for line in lines for name in line.makes}
        read = {name for line in lines for name in line.reads}
        wanted = tuple(name for name in (self.outputs if outputs is None else outputs))
        kept = tuple(each for each in self.inputs if each.name in read or each.name in wanted)
        known = made | {each.name for each in kept}
        called = {line.part for line in lines}
        parts = {name: each for name, each in self.parts.items() if name in called}
        outputs = tuple(name for name in wanted if name in known)
        return replace(self, inputs=kept, lines=tuple(lines), outputs=outputs, parts=parts)


def _make_module(source: str, constants: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """A module of the class that has this source, which is stored where tracebacks and TorchScript look for it."""
    file = f"<program {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, object] = {**NAMES, **constants, "__name__": "program"}
    exec(compile(source, file, "exec"), names)
    made = names["Program"]
    assert isinstance(made, type)
    module = made()
    assert isinstance(module, torch.nn.Module)
    return module.eval()


def _with_parts(module: torch.nn.Module, parts: Mapping[str, Part]) -> torch.nn.Module:
    for name, part in parts.items():
        module.add_module(name, part.module().eval())
    return module


def release(module: torch.nn.Module) -> None:
    """Forget the source of a module, which is no longer run."""
    linecache.cache.pop(type(module).forward.__code__.co_filename, None)
