"""Leaves out the stack trace that torch takes for each mode of fake tensors.

torch takes it when a mode is made, and shows it in the error that says that tensors of two modes were mixed. Taking it
is a twentieth of the time that the export of a single operator takes.
"""

from __future__ import annotations

from traceback import StackSummary
from typing import Any

import torch
import torch._subclasses.fake_tensor

from onnx_parity.exporter.patches.patch import Attribute, Patch
from onnx_parity.exporter.torch_inside.this_thread import captures_here

__all__ = ["PATCHES"]


class _Traceback:
    """The module `traceback`, which finds no stack in a thread that captures."""

    def __init__(self, torchs: Any) -> None:
        self._torchs = torchs

    def extract_stack(self, *args: Any, **kwargs: Any) -> Any:
        return StackSummary() if captures_here() else self._torchs.extract_stack(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torchs, name)


PATCHES: tuple[Patch, ...] = (Attribute(lambda: torch._subclasses.fake_tensor, "traceback", _Traceback),)
