"""Random numbers that a program draws from a generator that it has seeded itself, and which are the same in every run.

They become constants of the model where they depend on no input. Of the others a warning says that the model draws
different ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from onnx_parity.exporter.capture.evaluate import outside_of_recording
from onnx_parity.exporter.capture.graph.graph import Origin, Varying, operator_name
from onnx_parity.exporter.errors import FrozenValueError, OnnxExporterWarning

if TYPE_CHECKING:
    from onnx_parity.exporter.capture.record.recorder import Recorder

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


def draws(op: OpOverload, arguments: Mapping[str, Any]) -> bool:
    """Whether a call of an operator draws random numbers."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return False
    switches = [arguments[name] for name in _SWITCHES if name in arguments]
    return not any(isinstance(switch, (bool, int, float)) and not switch for switch in switches)


class RandomNumbers:
    """Which random generators the program has seeded, and what it draws from them."""

    def __init__(self, recorder: Recorder, strict: bool) -> None:
        self._recorder = recorder
        self._strict = strict
        #: The generators that the program created or seeded, and whether each has a seed that is the same in every run.
        #: The default generators of all devices are seeded together, and are one entry, of `None`.
        self._seeded: dict[int | None, tuple[torch.Generator | None, bool]] = {}
        #: The states that the program read, with whether the default generator was seeded then. Tensors are kept alive.
        self._states: dict[int, tuple[torch.Tensor, bool]] = {}
        #: The state of the default generator before the program seeded it.
        self._before: torch.Tensor | None = None
        #: Generators whose next numbers are not known here, because others were to be drawn from them that are not.
        self._unknown: set[int | None] = set()
        self._warnings_due: dict[str, Origin] = {}

    # --- called by the patches of torch -----------------------------------------------------------------------------

    def seed(self, generator: torch.Generator | None, seeded: bool) -> None:
        """Note that the program seeds a generator, or, if not `seeded`, has it seeded by chance."""
        if generator is None and self._before is None:
            self._before = _state()
        key = _key(generator)
        self._seeded[key] = generator, seeded
        if self._recorder.in_block:
            self._unknown.add(key)  # A branch may not be taken, and a loop seeds it again.
        else:
            self._unknown.discard(key)

    def state(self, state: torch.Tensor) -> None:
        """Note that the program has read the state of the default generator."""
        self._states[id(state)] = state, self._is_seeded(None)

    def restore_state(self, state: torch.Tensor) -> None:
        """Note that the program sets the state of the default generator: to one that it has read, or to a stored one"""
        self.seed(None, self._states.get(id(state), (state, True))[1])

    # --- called by the recorder -------------------------------------------------------------------------------------

    @property
    def is_any_seeded(self) -> bool:
        return bool(self._seeded)

    def restore(self) -> None:
        """Undo what the program did to the default generator of the CPU."""
        if self._before is not None:
            torch.default_generator.set_state(self._before)

    def drawn(self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
        """What a call draws, if that is the same in every run and known here; otherwise None."""
        names = (argument.name for argument in op._schema.arguments)
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        generator = arguments.get("generator")
        key = _key(generator)
        if not draws(op, arguments):
            return None
        is_known = generator is None or key in self._seeded
        if not (self._is_seeded(generator) if is_known else _is_fresh(generator)):
            return None
        if is_known and key not in self._unknown and not self._recorder.in_block:
            real = self._real(op, arguments)
            if real is not None:
                with outside_of_recording(), torch.no_grad():
                    drawn: torch.Tensor = op(**real)
                    return drawn
        self._unknown.add(key)
        self._warn(op)
        return None

    def warn(self) -> None:
        """Issue the warnings, unless the recording is repeated in another attempt."""
        for text, origin in self._warnings_due.items():
            warnings.warn_explicit(text, OnnxExporterWarning, origin.file or "<unknown>", origin.line)

    def _is_seeded(self, generator: torch.Generator | None) -> bool:
        return self._seeded.get(_key(generator), (None, False))[1]

    def _real(self, op: OpOverload, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """The arguments with real tensors, if they depend on no input and the result is one tensor."""
        if len(op._schema.returns) != 1 or any(map(_varies, arguments.values())):
            return None
        fakes = {name: value for name, value in arguments.items() if isinstance(value, FakeTensor)}
        if any(_varies(fake.shape) for fake in fakes.values()):
            return None
        reals = map(_empty_like, fakes.values()) if fills(op) else self._values(fakes.values())
        return None if reals is None else {**arguments, **dict(zip(fakes, reals, strict=True))}

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


def _key(generator: torch.Generator | None) -> int | None:
    # Operators get another object of Python's for the same generator.
    return None if generator is None else generator._cdata  # type: ignore[attr-defined]


def _state() -> torch.Tensor:
    with outside_of_recording():
        return torch.default_generator.get_state()


def _is_fresh(generator: Any) -> bool:
    """Whether nothing has been drawn from a generator that was created before the recording since it was seeded: by the
    program or before, which cannot be told apart."""
    with outside_of_recording():
        again = torch._C.Generator(generator.device).manual_seed(generator.initial_seed())
        return torch.equal(again.get_state(), generator.get_state())


def _empty_like(fake: FakeTensor) -> torch.Tensor:
    with outside_of_recording():
        return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.fake_device)


def fills(op: OpOverload) -> bool:
    """Whether an operator gives each element a random number, and reads no element of a tensor."""
    name, overload = op._schema.name.removesuffix("_"), op._schema.overload_name
    return (name == "aten::bernoulli" and overload in ("p", "float")) or (name in _FILL and "Tensor" not in overload)


def _varies(argument: Any) -> bool:
    items: Iterable[Any] = argument if isinstance(argument, (list, tuple)) else (argument,)
    return any(isinstance(item, Varying) for item in items)
