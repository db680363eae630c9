"""The origin of an operator: the line of the user's program and the module that called it."""

from __future__ import annotations

from typing import Protocol

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.graph import Origin
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller, calling_line, is_users_file, last_user_line

__all__ = ["OriginFinder", "asks_for_its_caller", "last_user_origin", "refused_here"]


class ScriptStep(Protocol):
    """An operation of a TorchScript graph, with the file and line that it comes from."""

    @property
    def place(self) -> tuple[str, int]: ...


class OriginFinder:
    """`find()` returns the origin of the current call, in about 3 us."""

    def __init__(self, program: object) -> None:
        #: The operation of a TorchScript program that is being interpreted. Its line is used instead of the stack's.
        self.step: ScriptStep | None = None
        self._paths: dict[int, str] = {}
        if isinstance(program, torch.nn.Module):
            self._paths = {id(module): name for name, module in program.named_modules(remove_duplicate=False)}

    def find(self) -> Origin:
        file, line = "", 0
        if self.step is not None and is_users_file(self.step.place[0]):
            file, line = self.step.place
        file, line, module = calling_line(self._paths, file, line)
        return Origin(file, line, module or "")


def last_user_origin(error: BaseException) -> Origin:
    """The innermost line of the user's own code in an error's traceback; without a file if there is none."""
    return Origin(*last_user_line(error))


def refused_here(text: str) -> CaptureError:
    """An error that refuses the call at the line of the program that is running."""
    return CaptureError(f"{text}{OriginFinder(None).find().in_brackets}")
