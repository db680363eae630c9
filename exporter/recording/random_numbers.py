"""Random numbers that a program draws after it has called `torch.manual_seed`, and which are the same in every run.

They become constants of the model where they depend on no input. Of the others, and of those from a generator with a
given seed, a warning says that the model draws different ones.

While a program is recorded, `torch.manual_seed` does not seed torch's generators, which all threads share: the numbers
are drawn from generators of the recording.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.errors import FrozenValueError, OnnxExporterWarning
from onnx_parity.exporter.graph.graph import Origin, Varying, operator_name
from onnx_parity.exporter.recording.evaluate import outside_of_recording
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.tensors import is_default_generator

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.recorder import Recorder

__all__ = ["RandomNumbers", "draws", "fills"]

#: Operators that read only the dtype and the sizes of their tensor, if they have one.
_FILL = frozenset(
    f"aten::{name}"
    for name in (
        "cauchy", "exponential", "geometric", "log_normal", "normal", "normal_functional", "rand_like", "randint_like",
        "randn_like", "random", "uniform",
    )
)  # fmt: skip
#: Arguments without which an operator, such as dropout, draws nothing.
_SWITCHES = ("train", "training", "p", "dropout", "dropout_p")
#: The overloads that take a generator, by those that do not.
_WITH_GENERATOR = {"": "generator", "low": "low_generator", "low_dtype": "low_generator_dtype"}
#: Names in the code of programs whose seeds may be others in each run, or which seed in a way that is not seen here.
_UNCERTAIN = frozenset({"default_generator", "getrandbits", "time_ns", "urandom"})


def draws(op: OpOverload, arguments: Mapping[str, Any]) -> bool:
    """Whether a call of an operator draws random numbers."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return False
    defaults = {each.name: each.default_value for each in schema_of(op).arguments if each.name in _SWITCHES}
    switches = [arguments.get(name, default) for name, default in defaults.items()]
    return not any(isinstance(switch, (bool, int, float)) and not switch for switch in switches)


def fills(op: OpOverload) -> bool:
    """Whether an operator gives each element a random number, and reads no element of a tensor."""
    name, overload = schema_of(op).name.removesuffix("_"), schema_of(op).overload_name
    return (name == "aten::bernoulli" and overload in ("p", "float")) or (name in _FILL and "Tensor" not in overload)


class RandomNumbers:
    """What a program has seeded, and what it draws after that."""

    def __init__(self, recorder: Recorder, strict: bool) -> None:
        self._recorder = recorder
        self._strict = strict
        #: Of each function that the program may call, the names in its code.
        self.names: Iterable[Collection[str]] = ()
        self._seed: int | None = None
        #: The generators in the place of torch's default ones since the program seeded these, by their devices.
        self._generators: dict[str, torch.Generator] = {}
        #: Whether what is drawn from them is known: not after a draw that depends on an input.
        self._is_known = False
        #: Whether the program has had a seed chosen by chance, from which it may compute others.
        self._has_chance = False
        #: The states that the program has read. A copy of the generator's is kept, or None if it was not seeded.
        self._states: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self._warnings_due: dict[str, Origin] = {}

    # --- called by the patches of torch -----------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """The program seeds the default generators."""
        self._seed, self._generators = seed, {}
        is_certain = not self._has_chance and not any(not _UNCERTAIN.isdisjoint(names) for names in self.names)
        # A branch may not be taken, and a loop seeds again.
        self._is_known = is_certain and not self._recorder.in_block

    def seed_by_chance(self) -> None:
        self._seed, self._has_chance = None, True

    def note_state_read(self, state: torch.Tensor) -> torch.Tensor:
        """The state that the program reads, where torch's default generator has the given one."""
        if self._seed is None:
            self._states[id(state)] = state, None
            return state
        with outside_of_recording():
            state = self._generator("cpu").get_state()
            self._states[id(state)] = state, state.clone()
        return state

    def note_state_set(self, state: torch.Tensor) -> None:
        """The program sets the state of the default generator of the CPU."""
        if id(state) not in self._states:
            # It may be one that the program has stored, or a copy of one that it has read.
            self._seed, self._is_known = 0, False
            return
        _, known = self._states[id(state)]
        if known is None:
            self._seed = None
        else:
            with outside_of_recording():
                self._generator("cpu").set_state(known)

    # --- called by the recorder -------------------------------------------------------------------------------------

    @property
    def is_seeded(self) -> bool:
        return self._seed is not None

    def drawn(self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
        """What a call draws, if that is the same in every run and known here; otherwise None."""
        names = (argument.name for argument in schema_of(op).arguments)
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        if not draws(op, arguments):
            return None
        generator = arguments.get("generator")
        if generator is not None and not is_default_generator(generator):
            self.note_generator(op, generator)
            return None
        if self._seed is None:
            return None
        drawn = self._draw(op, arguments) if self._is_known and not self._recorder.in_block else None
        if drawn is None:
            self._is_known = False
            self._warn(op)
        return drawn

    def note_generator(self, op: OpOverload, generator: torch.Generator) -> None:
        """The program gives a generator to a call that draws."""
        if not is_default_generator(generator) and _is_fresh(generator):
            self._warn(op)

    def warn(self) -> None:
        """Issue the warnings, unless the recording is repeated in another attempt."""
        for text, origin in self._warnings_due.items():
            warnings.warn_explicit(text, OnnxExporterWarning, origin.file or "<unknown>", origin.line)

    def _generator(self, device: str) -> torch.Generator:
        assert self._seed is not None
        known = self._generators.get(device)
        if known is None:
            known = self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return known

    def _draw(self, op: OpOverload, arguments: Mapping[str, Any]) -> torch.Tensor | None:
        """The result of a call that depends on no input, and that gives one tensor."""
        if not any(argument.name == "generator" for argument in schema_of(op).arguments):
            overload = _WITH_GENERATOR.get(schema_of(op).overload_name, "")
            if not hasattr(op.overloadpacket, overload):
                return None
            op = getattr(op.overloadpacket, overload)
        if len(schema_of(op).returns) != 1 or any(map(_varies, arguments.values())):
            return None
        fakes = {name: value for name, value in arguments.items() if isinstance(value, FakeTensor)}
        if any(_varies(fake.shape) for fake in fakes.values()):
            return None
        with outside_of_recording(), torch.no_grad():
            reals = map(_empty_like, fakes.values()) if fills(op) else self._values(fakes.values())
            if reals is None:
                return None
            real = {**arguments, **dict(zip(fakes, reals, strict=True))}
            device = next((fake.fake_device for fake in fakes.values()), arguments.get("device") or torch.device("cpu"))
            drawn: torch.Tensor = op(**{**real, "generator": self._generator(str(device))})
            return drawn

    def _values(self, fakes: Iterable[FakeTensor]) -> Iterable[torch.Tensor] | None:
        reader, values = self._recorder.reader, list(map(self._recorder.value_of, fakes))
        return None if any(map(reader.depends_on_input, values)) else reader.read(values)

    def _warn(self, op: OpOverload) -> None:
        origin = self._recorder.origins.find()
        text = (
            f"{operator_name(op)} draws random numbers{origin.placed} from a generator with a given seed. The model "
            "does not have that generator: it draws other numbers, in each run different ones. If they have to be "
            "these, draw them before the export and keep them in a buffer, or make them an input"
        )
        if self._strict:
            raise FrozenValueError(text)
        self._warnings_due[text] = origin


def _is_fresh(generator: torch.Generator) -> bool:
    """Whether nothing has been drawn from a generator since it got its seed: then it was probably for these numbers."""
    with outside_of_recording():
        again = torch.Generator(generator.device).manual_seed(generator.initial_seed())
        return torch.equal(again.get_state(), generator.get_state())


def _empty_like(fake: FakeTensor) -> torch.Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.fake_device)


def _varies(argument: Any) -> bool:
    items: Iterable[Any] = argument if isinstance(argument, (list, tuple)) else (argument,)
    return any(isinstance(item, Varying) for item in items)
