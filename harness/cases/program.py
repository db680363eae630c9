"""Builds the program of a case: a module, its inputs, and the other inputs that it is run with."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from onnx_parity.exporter.containers import map_tensors
from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.exporter.torch_inside.frames import FrameType, stands_in
from onnx_parity.exporter.verification.module_copy import copied, copied_tensor
from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.case import Case, Declaration, Maker, OrNone
from onnx_parity.harness.cases.arguments import Slot, arguments_of
from onnx_parity.harness.cases.dynamic_axes import example_sizes, length_of, named_axes
from onnx_parity.harness.cases.model_weights import build_module, convert
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.inputs import Listed
from onnx_parity.harness.record import Kind


@dataclass(frozen=True, slots=True)
class InputSet:
    """The values and sizes of the inputs. `InputSet()` is the example."""

    draw: int = 0
    #: Name and size of each dynamic axis whose size differs from the example's.
    sizes: tuple[tuple[str, int], ...] = ()
    #: Whether an element of the first input of floats is NaN.
    has_nan: bool = False

    def __str__(self) -> str:
        sizes = ", ".join(f"{symbol}={size}" for symbol, size in self.sizes)
        return sizes or ("other values" if self.draw else "a NaN" if self.has_nan else "example")


@dataclass(frozen=True, slots=True)
class Program:
    """A module whose `forward` takes the inputs as flat tensors, and the makers of the inputs."""

    case: Case
    dtype: Dtype
    device: Device
    seed: int
    module: torch.nn.Module
    makers: Mapping[str, Maker]
    weight_bytes: int

    @property
    def declaration(self) -> Declaration:
        """The declaration of the case, with the dynamic axes and the tolerance that this program has."""
        return self.case.declaration

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self.makers)

    def at_home(self) -> AbstractContextManager[object]:
        """A context in which the program creates tensors on its device, as after `torch.set_default_device`."""
        return nullcontext() if self.device is Device.CPU else torch.device(self.device)

    def inputs(self, which: InputSet) -> tuple[Given, ...]:
        sizes = dict(which.sizes)
        dynamic = self.declaration.dynamic
        made: list[Given] = []
        for name, maker in self.makers.items():
            wanted = dynamic.get(name, {})
            resize = {axis: sizes[symbol] for axis, symbol in named_axes(wanted).items() if symbol in sizes}
            seed = stable_seed(self.seed, self.case.label, name, str(which.draw))
            maker = maker.resize(resize) if resize else maker
            if isinstance(maker, Listed):
                maker = maker.of_length(sizes.get(length_of(name), len(maker.items)))
                made.append([item.to(self.device) for item in maker.make_all(seed, self.dtype)])
            elif isinstance(wanted, OrNone) and which.draw:
                made.append(None)
            else:
                made.append(maker.make(seed, self.dtype).to(self.device))
        return _with_nan(made, self.seed) if which.has_nan else tuple(made)

    def other_sizes(self) -> Iterator[InputSet]:
        """The sizes at which a dynamic cell runs again: all axes at their first other size, then at their second."""
        declaration = self.declaration
        examples = example_sizes(declaration.dynamic, self.makers, declaration.place)
        choices = {symbol: declaration.sizes.get(symbol, (1, example + 3)) for symbol, example in examples.items()}
        for turn in range(max((len(sizes) for sizes in choices.values()), default=0)):
            yield InputSet(sizes=tuple((symbol, sizes[turn % len(sizes)]) for symbol, sizes in choices.items()))

    def empty_sizes(self) -> Iterator[InputSet]:
        """Each dynamic axis without elements, unless the declaration says which sizes it may have."""
        declaration = self.declaration
        for symbol in example_sizes(declaration.dynamic, self.makers, declaration.place):
            if symbol not in declaration.sizes:
                yield InputSet(sizes=((symbol, 0),))

    def run(
        self, inputs: tuple[Given, ...], watched: AbstractContextManager[object] | None = None
    ) -> list[torch.Tensor]:
        """The program's outputs as a flat list. Neither the inputs nor the module are changed.

        `watched` is entered around the call itself, after the copies have been made.
        """
        return self.call(copied(self.module), inputs, watched)

    @torch.no_grad()
    def call(
        self, module: torch.nn.Module, inputs: tuple[Given, ...], watched: AbstractContextManager[object] | None = None
    ) -> list[torch.Tensor]:
        """The outputs of a copy of the program's module, which may be written to."""
        given = map_tensors(copied_tensor, inputs)
        with run_uncompiled(), self.at_home(), watched or nullcontext():
            outputs = module(*given)
        return [
            # Python's floats have 64 bits.
            leaf if isinstance(leaf, torch.Tensor) else torch.from_numpy(np.asarray(leaf))
            for leaf in tree_leaves(outputs)
            if leaf is not None
        ]


class OwnProgram(ABC):
    """A case that is not declared by `op` or `model`, and that builds its program itself."""

    __slots__ = ()

    @abstractmethod
    def build(self, dtype: Dtype, device: Device, run_seed: int) -> Program: ...


class CannotBuildError(Exception):
    """The program of a case cannot be built in this environment, so that its cells are absent. The message says why."""


def build(case: Case, dtype: Dtype, device: Device, run_seed: int) -> Program:
    """Build the program of a case. Its weights and constants depend on the run's seed."""
    if isinstance(case, OwnProgram):
        return case.build(dtype, device, run_seed)
    declaration = case.declaration
    arguments = arguments_of(declaration.inputs, case.arguments, declaration.place)
    constants = {
        name: maker.make(stable_seed(run_seed, case.label, name, "constant"), dtype).to(device)
        for name, maker in arguments.constants.items()
    }
    builds_module = declaration.kind is Kind.MODEL or (
        isinstance(declaration.program, type) and issubclass(declaration.program, torch.nn.Module)
    )
    keywords = arguments.keywords
    passed: Mapping[str, object] = {name: value for name, value in keywords.items() if _holds_slot(value)}
    inner: torch.nn.Module | Callable[..., object] = declaration.program
    if builds_module:
        settings = {name: value for name, value in keywords.items() if name not in passed}
        inner = build_module(declaration.program, settings, stable_seed(run_seed, case.label, "weights"))
        if dtype.is_floating:
            convert(inner, getattr(torch, dtype))
    else:
        passed = keywords
        if isinstance(inner, torch.nn.Module) and dtype.is_floating and dtype not in declaration.dtypes:
            # A module that is declared as it is has weights for the declared dtypes.
            inner = copy.deepcopy(inner)
            convert(inner, getattr(torch, dtype))
    if isinstance(inner, torch.nn.Module) and not passed and not constants and _is_flat(arguments.positional):
        module = inner
    else:
        place = (str(declaration.file), declaration.line)
        module = Call(inner, arguments.positional, passed, tuple(arguments.inputs), constants, place)
    module.train(declaration.train).to(device)
    weights = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
    return Program(case, dtype, device, run_seed, module, arguments.inputs, weights)


class Call(torch.nn.Module):
    """A function, or a module with nested arguments, as a module that takes flat tensors."""

    def __init__(
        self,
        program: Callable[..., object],
        arguments: tuple[object, ...],
        keywords: Mapping[str, object],
        names: tuple[str, ...],
        constants: Mapping[str, torch.Tensor],
        place: tuple[str, int],
    ) -> None:
        """`place` is the line of the declaration that asks for the call."""
        super().__init__()
        self.place = place
        self.program = program
        self.arguments = arguments
        self.keywords = keywords
        self.names = names
        for name, value in constants.items():
            self.register_buffer(name, value)

    def forward(self, *inputs: Given) -> object:
        given = dict(zip(self.names, inputs, strict=True))
        keywords = {name: self._fill(value, given) for name, value in self.keywords.items()}
        return self.program(*(self._fill(value, given) for value in self.arguments), **keywords)

    @staticmethod
    def _declared(frame: FrameType) -> tuple[str, int]:
        place: tuple[str, int] = frame.f_locals["self"].place
        return place

    # Not a function inside of `forward`: one that calls itself would keep the inputs until garbage is collected.
    def _fill(self, value: object, given: Mapping[str, Given]) -> object:
        if isinstance(value, Slot):
            return given[value.name] if value.name in given else self.get_buffer(value.name)
        if isinstance(value, tuple) and _holds_slot(value):
            return tuple(self._fill(item, given) for item in value)
        return value


# The user's line is the declaration: this file is none of theirs.
stands_in(Call.forward.__code__, Call._declared)


def _with_nan(inputs: Sequence[Given], seed: int) -> tuple[Given, ...]:
    """The inputs with NaN as one element of the first that has floats."""
    changed = list(inputs)
    for place, given in enumerate(inputs):
        if isinstance(given, torch.Tensor) and given.is_floating_point() and given.numel():
            generator = torch.Generator().manual_seed(stable_seed(seed, str(place), str(tuple(given.shape)), "nan"))
            element = int(torch.randint(given.numel(), (), generator=generator))
            changed[place] = copy = given.clone()
            copy[tuple(map(int, np.unravel_index(element, given.shape)))] = float("nan")
            break
    return tuple(changed)


def _holds_slot(value: object) -> bool:
    return isinstance(value, Slot) or (isinstance(value, tuple) and any(map(_holds_slot, value)))


def _is_flat(arguments: tuple[object, ...]) -> bool:
    return all(isinstance(argument, Slot) for argument in arguments)


@contextmanager
def run_uncompiled() -> Iterator[None]:
    """A context in which programs run eagerly. Otherwise `torch.cond` and other control flow operators compile
    themselves, which takes seconds, and fails if the program is run in another dtype.
    """

    def as_it_is(program: object = None, **options: object) -> object:
        return program

    compiling = torch.compile
    torch.compile = as_it_is  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compile = compiling
