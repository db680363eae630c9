"""Where in the user's program an operator was called: source line and module path, read from the Python stack."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

import torch

from exporter.capture.graph import Origin

__all__ = ["OriginFinder", "last_user_line", "nearest_user_frame"]

_INTERNAL = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, os.path.dirname(__file__))
)
_MODULE_CALL = torch.nn.Module._call_impl.__code__
#: Of a code object, whether it is the user's. Code objects are few and live long.
_is_user: dict[CodeType, bool] = {}


def _users(code: CodeType) -> bool:
    known = _is_user.get(code)
    if known is None:
        name = code.co_filename
        known = not name.startswith(("<", *_INTERNAL)) or name.startswith(("<ipython", "<stdin>"))
        _is_user[code] = known
    return known


def nearest_user_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not _users(frame.f_code):
        frame = frame.f_back
    return frame


def last_user_line(error: BaseException) -> str:
    """The innermost line of the user's own code that an error came through; empty if there is none."""
    where = ""
    traceback = error.__traceback__
    while traceback is not None:
        if _users(traceback.tb_frame.f_code):
            where = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return where


class OriginFinder:
    """Answers `find()` for the call that is happening now. Walks up only as far as it must (about 3 us a call)."""

    def __init__(self, program: object) -> None:
        self._paths: dict[int, str] = {}
        if isinstance(program, torch.nn.Module):
            self._paths = {id(module): name for name, module in program.named_modules(remove_duplicate=False)}

    def find(self) -> Origin:
        frame: FrameType | None = sys._getframe(2)
        file, line, module = "", 0, None
        while frame is not None and (module is None or not file):
            code = frame.f_code
            if code is _MODULE_CALL:
                if module is None:
                    module = self._paths.get(id(frame.f_locals["self"]))
            elif not file and _users(code):
                file, line = code.co_filename, frame.f_lineno
            frame = frame.f_back
        return Origin(file, line, module or "")
