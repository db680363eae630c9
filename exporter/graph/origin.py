"""Finds the line of the user's program and the module that called an operator, from the Python stack."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from types import CodeType, FrameType
from typing import NamedTuple, Protocol

import torch
from torch import fx

from onnx_parity.exporter import version
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.graph import Origin

__all__ = [
    "OriginFinder",
    "Place",
    "asked_for_caller",
    "asks_for_its_caller",
    "last_user_line",
    "nearest_user_place",
    "program_frame",
    "refused_here",
    "stop_at",
]

_INTERNAL = (
    # version.py is in the top folder of this package.
    *(os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep for module in (torch, version)),
    contextlib.__file__,
)
_MODULE_CALL = torch.nn.Module._call_impl.__code__
#: torch.fx runs each node of a graph with this function. A node stores the line that it was captured from.
_NODE_RUN = fx.Interpreter.run_node.__code__
_TRACED_LINE = re.compile(r'File "([^"]+)", line (\d+)')
#: The packages of these folders, whose code that was compiled from text is not the user's.
_INTERNAL_PACKAGES = frozenset({"torch", "onnx_parity"})
#: The names of what Python and torch compile from text for themselves.
_GENERATED = ("<frozen", "<eval_with_key", "<__array_function__")
#: By file name, whether the file belongs to the user, that is neither to torch nor to this package. None for text, for
#: which the name does not tell.
_is_user: dict[str, bool | None] = {}


#: Functions that call an export on behalf of a user: neither they nor their callers belong to the program. They are
#: found by their ids, because code that a compiler generates may contain constants without a hash.
_outermost: dict[int, CodeType] = {}


def stop_at(code: CodeType) -> None:
    """Do not report lines of this function or of its callers."""
    _outermost[id(code)] = code


#: Files of this package that compare sizes on behalf of their callers. A branch on a dynamic size in these files is
#: reported at the caller's line.
_asking_for_callers: set[str] = set()


def asks_for_its_caller(file: str) -> None:
    """Report comparisons of sizes in this file as comparisons in the functions that called it."""
    _asking_for_callers.add(file)


def asked_for_caller(code: CodeType) -> bool:
    """Whether comparisons of sizes in this function are reported at its caller."""
    return code.co_filename in _asking_for_callers


def _users(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    if name not in _is_user:
        is_text = name.startswith("<") and not name.startswith(_GENERATED)
        _is_user[name] = None if is_text else _users_file(name)
    known = _is_user[name]
    return _is_of_user(frame) if known is None else known


def _is_of_user(frame: FrameType) -> bool:
    """Whether code that was compiled from text, as by `python -c`, `exec` or a dataclass, belongs to the user."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _INTERNAL_PACKAGES


def _users_file(name: str) -> bool:
    return bool(name) and not name.startswith(("<", *_INTERNAL))


class Place(NamedTuple):
    """A line of the user's code, and its frame."""

    file: str
    line: int
    frame: FrameType


def nearest_user_place(frame: FrameType | None) -> Place | None:
    """The innermost line of the user's code on the stack that ends in `frame`, or None."""
    in_graph = False
    while frame is not None and id(frame.f_code) not in _outermost:
        if frame.f_code is _NODE_RUN:
            # The frames around this one run the graph, and are not lines of the program.
            in_graph = True
            file, line = _line_of(frame.f_locals["n"])
            if file:
                return Place(file, line, frame)
        elif not in_graph and _users(frame):
            return Place(frame.f_code.co_filename, frame.f_lineno, frame)
        frame = frame.f_back
    return None


def program_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the program on the stack that ends in `frame`, which may be the code of a graph."""
    while frame is not None and id(frame.f_code) not in _outermost:
        if _users(frame) or frame.f_code.co_filename.startswith("<eval_with_key"):
            return frame
        frame = frame.f_back
    return None


def last_user_line(error: BaseException) -> Origin:
    """The innermost line of the user's own code in an error's traceback; without a file if there is none."""
    found = Origin("", 0)
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code is _NODE_RUN:
            file, line = _line_of(frame.f_locals["n"])
            found = Origin(file, line) if file else found
        elif _users(frame):
            found = Origin(frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def _line_of(node: fx.Node) -> tuple[str, int]:
    """The innermost line of the user's code that a node of a graph was captured from."""
    for file, line in reversed(_TRACED_LINE.findall(node.meta.get("stack_trace") or "")):
        if _users_file(file) and os.path.isabs(file):
            return file, int(line)
    return "", 0


def _module_of(node: fx.Node) -> str | None:
    """The path of the module that was running when a node of a graph was captured."""
    stack = node.meta.get("nn_module_stack")
    return str(next(reversed(stack.values()))[0]) if stack else None


class ScriptStep(Protocol):
    """An operation of a TorchScript graph, with the file and line that it comes from."""

    @property
    def place(self) -> tuple[str, int]: ...


class OriginFinder:
    """`find()` returns the origin of the current call. It walks up the stack only as far as needed, in about 3 us."""

    def __init__(self, program: object) -> None:
        #: The operation of a TorchScript program that is being interpreted. Its line is used instead of the stack's.
        self.step: ScriptStep | None = None
        self._paths: dict[int, str] = {}
        if isinstance(program, torch.nn.Module):
            self._paths = {id(module): name for name, module in program.named_modules(remove_duplicate=False)}

    def find(self) -> Origin:
        frame: FrameType | None = sys._getframe(2)
        file, line, module = "", 0, None
        if self.step is not None and _users_file(self.step.place[0]):
            file, line = self.step.place
        in_graph = False
        while frame is not None and (module is None or not file):
            code = frame.f_code
            if id(code) in _outermost:
                break
            if code is _MODULE_CALL:
                if module is None:
                    module = self._paths.get(id(frame.f_locals["self"]))
            elif code is _NODE_RUN:
                node, in_graph = frame.f_locals["n"], True
                if not file:
                    file, line = _line_of(node)
                if module is None:
                    module = _module_of(node)
            elif not file and not in_graph and _users(frame):
                file, line = code.co_filename, frame.f_lineno
            frame = frame.f_back
        return Origin(file, line, module or "")


def refused_here(text: str) -> CaptureError:
    """An error that refuses the call at the line of the program that is running."""
    return CaptureError(f"{text}{OriginFinder(None).find().in_brackets}")
