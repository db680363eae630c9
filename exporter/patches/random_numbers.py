"""torch's functions that seed the default generators: they seed those of the recording (`record/random_numbers.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.torch_inside.patch import FunctionCode, Patch
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = ["PATCHES"]

#: The number of bytes of a seed that is chosen by chance.
_BYTES = 6


def _manual_seed(_torchs: Callable[..., Any], seed: int) -> torch.Generator:
    recorder_here().random_numbers.seed(int(seed))
    return torch.default_generator


def _seed(_torchs: Callable[[], int]) -> int:
    recorder_here().random_numbers.seed_by_chance()
    return int.from_bytes(os.urandom(_BYTES))


def _get_rng_state(torchs: Callable[[], torch.Tensor]) -> torch.Tensor:
    return recorder_here().random_numbers.note_state_read(torchs())


def _set_rng_state(_torchs: Callable[[torch.Tensor], None], new_state: torch.Tensor) -> None:
    recorder_here().random_numbers.note_state_set(new_state)


PATCHES: tuple[Patch, ...] = (
    FunctionCode(torch.random, "manual_seed", _manual_seed),
    FunctionCode(torch.random, "seed", _seed),
    FunctionCode(torch.random, "get_rng_state", _get_rng_state),
    FunctionCode(torch.random, "set_rng_state", _set_rng_state),
)
