"""Functions that seed random generators, from which the same is drawn in every run: see `record/random_numbers.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.capture.patches.patch import Attribute, FunctionCode, Patch
from onnx_parity.exporter.capture.patches.this_thread import recorder_here, records_here

__all__ = ["PATCHES"]


def _seeding(seeded: bool) -> Callable[..., Any]:
    def seed(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        recorder_here().random_numbers.seed(None, seeded)
        return torchs(*args, **kwargs)

    return seed


def _get_rng_state(torchs: Callable[[], torch.Tensor]) -> torch.Tensor:
    state = torchs()
    recorder_here().random_numbers.state(state)
    return state


def _set_rng_state(torchs: Callable[[torch.Tensor], None], new_state: torch.Tensor) -> None:
    recorder_here().random_numbers.restore_state(new_state)
    torchs(new_state)


def _recorded_generator(torchs: type[torch.Generator]) -> type[torch.Generator]:
    """torch's class of generators, with a subclass for those that a program creates while it is recorded.

    Its methods are written in C, and cannot be replaced.
    """

    class Creating(type(torchs)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> torch.Generator:
            if not records_here():
                return torchs(*args, **kwargs)
            created: torch.Generator = super().__call__(*args, **kwargs)
            # torch gives it the same seed in every run.
            recorder_here().random_numbers.seed(created, True)
            return created

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, torchs)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, torchs)

    @functools.wraps(torchs, updated=())
    class Generator(torchs, metaclass=Creating):  # type: ignore[misc, valid-type]
        def manual_seed(self, seed: int) -> torch.Generator:
            self._note(True)
            seeded: torch.Generator = super().manual_seed(seed)
            return seeded

        def seed(self) -> int:
            self._note(False)
            chosen: int = super().seed()
            return chosen

        def _note(self, seeded: bool) -> None:
            if records_here():
                recorder_here().random_numbers.seed(self, seeded)

    return Generator


PATCHES: tuple[Patch, ...] = (
    FunctionCode(lambda: torch.random.manual_seed, _seeding(True)),
    FunctionCode(lambda: torch.random.seed, _seeding(False)),
    FunctionCode(lambda: torch.random.get_rng_state, _get_rng_state),
    FunctionCode(lambda: torch.random.set_rng_state, _set_rng_state),
    Attribute(lambda: torch, "Generator", _recorded_generator),
)
