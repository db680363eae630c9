"""Python's stack: which frames belong to the user's program, which line and which module called, and local variables.

`graph/origin.py` makes the origins of operators of it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import opcode
import os
import re
import sys
import warnings
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from types import CellType, CodeType, FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple

import torch
from torch import fx

from onnx_parity.exporter import errors
from onnx_parity.exporter.torch_inside.garbage import get_referents

__all__ = [
    "Asker", "FrameType", "Place", "asked_for_caller", "asks_for_its_caller", "calling_line", "calls_the_program",
    "clear_locals", "code_and_module", "codes_running", "current_frame", "frames_of_user", "is_asked_by_user",
    "is_caught_by_user", "is_function_of_torch", "is_library_file",
    "is_raised_by_python", "is_raised_by_user", "is_users_file", "last_line_in",
    "last_user_line", "library_names", "line_in", "module_that_calls", "nearest_user_place", "passes_through",
    "program_frame", "reads_or_writes_item", "runs_users_code", "spelled_in", "stands_in", "stop_at",
    "variables_of_calls", "warn_at_users_line", "who_asks",
]  # fmt: skip

#: The frame of the caller, or of the caller that many calls above it.
current_frame = sys._getframe

_INTERNAL = (
    # errors.py is in the top folder of this package.
    *(os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep for module in (torch, errors)),
    contextlib.__file__,
)
_MODULE_CALL = torch.nn.Module._call_impl.__code__
#: torch.fx runs each node of a graph with this function. A node stores the line that it was captured from.
_NODE_RUN = fx.Interpreter.run_node.__code__
#: The instructions that read and write an item. From Python 3.14 on, an item is read by that of binary operators.
_SUBSCRIPTS = frozenset(opcode.opmap[name] for name in ("BINARY_SUBSCR", "STORE_SUBSCR") if name in opcode.opmap)
#: The file of what `isinstance` calls for an abstract class.
_ABSTRACT_CLASSES = ABCMeta.__instancecheck__.__code__.co_filename
_BINARY = opcode.opmap["BINARY_OP"]
_READS_ITEM = [at for at, (name, _) in enumerate(opcode._nb_ops) if name == "NB_SUBSCR"]  # type: ignore[attr-defined]
_TRACED_LINE = re.compile(r'File "([^"]+)", line (\d+)')
#: The packages of these folders, whose code that was compiled from text is not the user's.
_INTERNAL_PACKAGES = frozenset({"torch", "onnx_parity"})
#: The names of what Python and torch compile from text for themselves.
_GENERATED = ("<frozen", "<eval_with_key", "<__array_function__")
#: The names of folders that packages are installed into.
_INSTALLED = frozenset({"site-packages", "dist-packages"})
#: By file name, whether the file belongs to the user, that is neither to torch nor to this package. None for text, for
#: which the name does not tell.
_is_user: dict[str, bool | None] = {}


#: Functions that call an export on behalf of a user: neither they nor their callers belong to the program. They are
#: found by their ids, because code that a compiler generates may contain constants without a hash.
_outermost: dict[int, CodeType] = {}


def stop_at(code: CodeType) -> None:
    """Do not report lines of this function or of its callers."""
    _outermost[id(code)] = code


#: Functions of this package that call a program, found by their ids: modules are not looked for among their callers.
_calling: dict[int, CodeType] = {}


def calls_the_program(function: Callable[..., object]) -> None:
    """Do not look for modules of a program among the callers of this function, which calls it."""
    assert isinstance(function, FunctionType)
    _calling[id(function.__code__)] = function.__code__


#: Functions that call a program in place of a line elsewhere, such as a declaration, and what tells this line.
_standing_in: dict[int, tuple[CodeType, Callable[[FrameType], tuple[str, int]]]] = {}


def stands_in(code: CodeType, line_of: Callable[[FrameType], tuple[str, int]]) -> None:
    """Report lines of this function as the file and the line that are told for its frame."""
    _standing_in[id(code)] = code, line_of


def _place_in(frame: FrameType, line: int) -> tuple[str, int]:
    _, line_of = _standing_in.get(id(frame.f_code), (None, None))
    return (frame.f_code.co_filename, line) if line_of is None else line_of(frame)


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
        _is_user[name] = None if is_text else is_users_file(name)
    known = _is_user[name]
    return _is_of_user(frame) if known is None else known


def _is_of_user(frame: FrameType) -> bool:
    """Whether code that was compiled from text, as by `python -c`, `exec` or a dataclass, belongs to the user."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _INTERNAL_PACKAGES


def is_users_file(name: str) -> bool:
    """Whether a file belongs to the user, that is neither to torch nor to this package."""
    return bool(name) and not name.startswith(("<", *_INTERNAL))


def is_library_file(name: str) -> bool:
    """Whether a file is in a folder that packages are installed into, such as one that `pip install --target` made."""
    path = Path(name)
    return not _INSTALLED.isdisjoint(path.parts) or any(
        str(folder) in sys.path and _has_packages(str(folder)) for folder in path.parents
    )


@functools.cache
def _has_packages(folder: str) -> bool:
    return any(Path(folder).glob("*.dist-info"))


def library_names(name: str, frame: FrameType) -> bool:
    """Whether the code of a frame is that of an installed package, and uses a global or an attribute of this name."""
    return is_library_file(frame.f_code.co_filename) and name in frame.f_code.co_names


def line_in(frame: FrameType) -> tuple[str, int]:
    """The file of the code of a frame, and the line that it has reached."""
    return frame.f_code.co_filename, frame.f_lineno


class Place(NamedTuple):
    """A line of the user's code, and its frame."""

    file: str
    line: int
    frame: FrameType


def line_being_imported() -> tuple[str, int]:
    """The file that is being imported, and the line that it has reached."""
    frame: FrameType | None = current_frame(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


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
            return Place(*_place_in(frame, frame.f_lineno), frame)
        frame = frame.f_back
    return None


def warn_at_users_line(text: str, category: type[Warning]) -> None:
    """Warn of what the user's code asked for, at the innermost line of it that is running."""
    place = nearest_user_place(current_frame())
    file, line = (place.file, place.line) if place is not None else ("<unknown>", 0)
    warnings.warn_explicit(text, category, file, line)


def frames_of_user(frame: FrameType | None, outermost: CodeType) -> Iterator[FrameType]:
    """The frames of the user's code on the stack that ends in `frame`, the innermost first, inside of one with that
    code."""
    while frame is not None and frame.f_code is not outermost:
        if _users(frame):
            yield frame
        frame = frame.f_back


def program_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the program on the stack that ends in `frame`, which may be the code of a graph."""
    while frame is not None and id(frame.f_code) not in _outermost:
        if _users(frame) or frame.f_code.co_filename.startswith("<eval_with_key"):
            return frame
        frame = frame.f_back
    return None


def runs_users_code(frame: FrameType) -> bool:
    """Whether the code of a frame is the user's."""
    return _users(frame)


def is_function_of_torch(frame: FrameType) -> bool:
    """Whether the code of a frame is that of a function or module of torch that programs call, such as
    `torch.nn.functional.mse_loss`, and not of what computes the results of its operators."""
    names = str(frame.f_globals.get("__name__")).split(".")
    return names[0] == "torch" and names[1:2] != ["fx"] and not any(name.startswith("_") for name in names)


def is_asked_by_user(depth: int) -> bool:
    """Whether the function that many calls above the caller is the user's, or `isinstance` with an abstract class,
    such as `numbers.Integral`, that it calls."""
    frame = sys._getframe(depth + 1)
    while frame.f_back is not None and frame.f_code.co_filename == _ABSTRACT_CLASSES:
        frame = frame.f_back
    return _users(frame)


def code_and_module(frame: FrameType) -> tuple[CodeType, str]:
    """The code of a frame, and the name of its module."""
    return frame.f_code, str(frame.f_globals.get("__name__"))


def is_raised_by_python(error: BaseException) -> bool:
    """Whether a `raise` or an `assert` raised an error, or Python itself because a sequence is too short or too long,
    and not a function of C++, nor a symbolic number for what it cannot do."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None or place.tb_frame.f_code.co_qualname.startswith(("SymInt.", "SymFloat.", "SymBool.")):
        return False
    instruction = opcode.opname[place.tb_frame.f_code.co_code[place.tb_lasti]]
    if isinstance(error, ValueError) and instruction.startswith("UNPACK_"):
        return True
    return instruction == "RAISE_VARARGS" or str(error) in ("list index out of range", "tuple index out of range")


def is_raised_by_user(error: BaseException) -> bool:
    """Whether the user's code raised an error, and nothing that it called."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and runs_users_code(place.tb_frame)


def is_caught_by_user(error: BaseException) -> bool:
    """Whether an error was raised as far as code of the user's, which has caught it."""
    return error.__traceback__ is not None and _users(error.__traceback__.tb_frame)


def spelled_in(frame: FrameType | None) -> str:
    """How the source of a frame spells the expression that it is evaluating, in one line; empty if it is not known.

    A jump belongs to the whole statement, of which this is the condition.
    """
    if frame is None:
        return ""
    code, instruction = frame.f_code, frame.f_lasti // 2
    first, last, begin, end = next(islice(code.co_positions(), instruction, None), (None,) * 4)
    if first is None or last is None or begin is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, line, frame.f_globals).encode() for line in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return _condition_in(" ".join(b" ".join(lines).decode(errors="replace").split()))


def _condition_in(spelled: str) -> str:
    """The condition of an `if`, a `while` or an `assert`; any other text unchanged."""
    keyword, _, rest = spelled.partition(" ")
    if keyword in ("if", "elif", "while", "assert"):
        for end in (place for place, sign in enumerate(rest) if sign == ("," if keyword == "assert" else ":")):
            with suppress(SyntaxError):
                ast.parse(rest[:end], mode="eval")
                return rest[:end]
    return rest if keyword == "assert" else spelled


def last_user_line(error: BaseException) -> tuple[str, int]:
    """The file and the innermost line of the user's own code in an error's traceback; `"", 0` if there is none."""
    found = "", 0
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code is _NODE_RUN:
            file, line = _line_of(frame.f_locals["n"])
            found = (file, line) if file else found
        elif _users(frame):
            found = _place_in(frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def _line_of(node: fx.Node) -> tuple[str, int]:
    """The innermost line of the user's code that a node of a graph was captured from."""
    for file, line in reversed(_TRACED_LINE.findall(node.meta.get("stack_trace") or "")):
        if is_users_file(file) and os.path.isabs(file):
            return file, int(line)
    return "", 0


def _module_of(node: fx.Node) -> str | None:
    """The path of the module that was running when a node of a graph was captured."""
    stack = node.meta.get("nn_module_stack")
    return str(next(reversed(stack.values()))[0]) if stack else None


def calling_line(paths: Mapping[int, str], file: str, line: int) -> tuple[str, int, str | None]:
    """The file and the line of the user's code that is running, unless they are known, and the path of the module.

    `paths` has the paths of modules by their ids. It walks up the stack only as far as needed, in about 3 us.
    """
    frame: FrameType | None = sys._getframe(3)
    module = None
    in_graph = False
    while frame is not None and (module is None or not file):
        code = frame.f_code
        if id(code) in _outermost or (file and id(code) in _calling):
            break
        if code is _MODULE_CALL:
            if module is None:
                module = paths.get(id(frame.f_locals["self"]))
        elif code is _NODE_RUN:
            node, in_graph = frame.f_locals["n"], True
            if not file:
                file, line = _line_of(node)
            if module is None:
                module = _module_of(node)
        elif not file and not in_graph and _users(frame):
            file, line = _place_in(frame, frame.f_lineno)
        frame = frame.f_back
    return file, line, module


class Asker(NamedTuple):
    """Who asks about a size: the nearest frame of a file that does not ask on behalf of its callers."""

    frame: FrameType
    #: Whether Python asked, by `SymBool.__bool__`, and not torch's C++ code, such as the check of an index.
    in_python: bool


def who_asks(frame: FrameType) -> Asker:
    """Who asks about a size, on the stack that ends in `frame`."""
    in_python = False
    while frame.f_back is not None and asked_for_caller(frame.f_code):
        in_python = in_python or frame.f_code.co_filename == torch.__file__
        frame = frame.f_back
    return Asker(frame, in_python)


def module_that_calls(depth: int) -> str:
    """The name of the module of the function that many calls above the caller."""
    name: str | None = sys._getframe(depth + 1).f_globals.get("__name__")
    return name or ""


def reads_or_writes_item(frame: FrameType | None) -> bool:
    """Whether a line of the program now reads or writes an item, which is how torch's C++ code comes to read a flag."""
    if frame is None:
        return False
    instruction, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return instruction in _SUBSCRIPTS or (instruction == _BINARY and argument in _READS_ITEM)


def last_line_in(file: str | None, error: BaseException) -> int | None:
    """The innermost line of a file in an error's traceback."""
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return lines[-1] if lines else None


def passes_through(function: Callable[..., Any], error: BaseException) -> bool:
    """Whether a function was running when an error was raised."""
    code = function.__code__
    return any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))


def codes_running(error: BaseException | None) -> list[tuple[str, CodeType]]:
    """The code that was running when an error, or what caused it, was raised, with the names of its modules."""
    found = []
    while error is not None:
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        found += [(str(frame.f_globals.get("__name__")), frame.f_code) for frame in frames]
        error = error.__cause__
    return found


def variables_of_calls(function: Callable[..., Any], error: BaseException) -> Iterator[Mapping[str, Any]]:
    """The variables of the calls of a function in an error's traceback, the innermost last."""
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_code is function.__code__:
            yield frame.f_locals


def clear_locals(error: BaseException, outer: BaseException | None) -> None:
    """Release the local variables of the frames of a failed recording. The lines are still in the traceback.

    `outer` is the exception that was being handled when the recording began, if any.
    """
    seen = {id(outer)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        place: TracebackType | None = each.__traceback__
        while place is not None:
            with suppress(RuntimeError):  # The frame is still running: it is one of the export's callers.
                own = _cells_made_by(place.tb_frame)
                place.tb_frame.clear()
                # Before Python 3.13, a dict of the variables stays if it was asked for once. Asking again updates it.
                _ = place.tb_frame.f_locals
                for cell in own:
                    with suppress(ValueError):  # It is empty already.
                        del cell.cell_contents
            place = place.tb_next


def _cells_made_by(frame: FrameType) -> list[CellType]:
    """The variables of a frame of this package that its inner functions close over. Each frame of such a function
    refers to them, even when it has been cleared.

    A function of the program may be called again, so that what it closes over stays.
    """
    if not frame.f_code.co_cellvars or not str(frame.f_globals.get("__name__")).startswith("onnx_parity."):
        return []
    found = get_referents(frame)
    running = [each for each in found if isinstance(each, FunctionType) and each.__code__ is frame.f_code]
    given = {id(cell) for each in running for cell in each.__closure__ or ()}
    return [each for each in found if isinstance(each, CellType) and id(each) not in given]
