"""Code objects: the names in code, code that calls another function, code in which calls of builtins are exchanged."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from opcode import opmap
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import msgspec

from onnx_parity.exporter.torch_inside.bytecode import asking, compares_by_identity, handles_errors
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.garbage import get_objects

__all__ = [
    "CachedFunction", "CellType", "CodeType", "ExchangedCalls", "cells_of", "code_of", "code_that_calls",
    "copied_function", "empty", "fill", "filled_with", "first_line", "functions_with", "names_called_by",
    "names_in", "place_of", "variables_of", "with_cells",
]  # fmt: skip

# The code that is compiled here calls on for another function.
asks_for_its_caller(__file__)

_LOAD_GLOBAL, _LOAD_CONST, _PUSH_NULL = opmap["LOAD_GLOBAL"], opmap["LOAD_CONST"], opmap["PUSH_NULL"]
#: Before Python 3.12, methods are loaded with an instruction of their own.
_LOAD_METHOD = opmap["LOAD_METHOD"] if sys.version_info < (3, 12) else None
_LOAD_ATTR = opmap["LOAD_ATTR"]
_SWAP = opmap["SWAP"]
_EXTENDED_ARG, _NOP, _CACHE = opmap["EXTENDED_ARG"], opmap["NOP"], bytes([opmap["CACHE"]])
#: Whether the NULL that is pushed with what is called lies above it.
_NULL_IS_ABOVE = sys.version_info >= (3, 13)
#: Stands among the names in code that compares by `is`.
_IDENTITY = "is"
#: Stands among the names in code that handles errors.
_HANDLER = "except"
#: The names of code, before Python 3.12 also of comprehensions that make a list, that goes over what it is given.
_COMPREHENSIONS = frozenset({"<genexpr>", "<listcomp>"})
#: The most codes for which something is kept.
_MOST = 20_000


#: The type of a function whose results `functools.lru_cache` keeps.
CachedFunction = functools._lru_cache_wrapper


# --- functions and what they close over -------------------------------------------------------------------------------


def code_of(function: Callable[..., Any]) -> CodeType:
    """The code of a function of Python."""
    code: CodeType = function.__code__
    return code


def first_line(function: Callable[..., Any] | None) -> tuple[str, int]:
    """The file and the first line of a function of Python; `"", 0` for any other."""
    code = getattr(function, "__code__", None)
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)


def place_of(code: CodeType) -> str:
    """The file and the line at which code begins."""
    return f"{code.co_filename}:{code.co_firstlineno}"


def functions_with(codes: Iterable[tuple[str, CodeType]]) -> list[FunctionType]:
    """The functions that have one of these codes, each given with its module."""
    named = {id(code): (_function_named(module, code.co_qualname), code) for module, code in codes}
    found = [function for function, code in named.values() if function is not None and function.__code__ is code]
    wanted = named.keys() - {id(each.__code__) for each in found}
    if wanted:
        # It takes a while. The garbage collector would compare what each object refers to with each of the codes.
        found += [each for each in get_objects() if type(each) is FunctionType and id(each.__code__) in wanted]
    return found


def _function_named(module: str, qualified_name: str) -> FunctionType | None:
    """The function of a name in a module or in its classes; None for one that is made by another function."""
    held: Any = sys.modules.get(module)
    for name in qualified_name.split("."):
        held = getattr(held, "__dict__", {}).get(name)
        held = getattr(held, "__func__", held)  # That of a class method.
    return held if type(held) is FunctionType else None


def names_called_by(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of globals and attributes in a function of Python; none for any other."""
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_names


def cells_of(function: FunctionType) -> tuple[CellType, ...]:
    """The variables that a function closes over."""
    return function.__closure__ or ()


def variables_of(function: FunctionType) -> list[tuple[str, CellType]]:
    """The variables that a function closes over, by their names."""
    return [*zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)]


def filled_with(cell: CellType, default: Any) -> Any:
    """The value of a variable that a function closes over; the default if it has not been assigned to."""
    try:
        return cell.cell_contents
    except ValueError:
        return default


def fill(cell: CellType, value: Any) -> None:
    """Assign to a variable that a function closes over."""
    cell.cell_contents = value


def empty(cell: CellType) -> None:
    """Delete a variable that a function closes over."""
    del cell.cell_contents


def with_cells(function: FunctionType, cells: Iterable[CellType] | None = None) -> FunctionType:
    """A copy of a function, which may close over other variables."""
    closure = function.__closure__ if cells is None else tuple(cells)
    copied = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied


def copied_function(function: FunctionType) -> FunctionType:
    """A copy of a function. It has no `__wrapped__`, which would lead back to the function itself."""
    copied = with_cells(function)
    for name in functools.WRAPPER_ASSIGNMENTS:
        setattr(copied, name, getattr(function, name))
    return copied


# --- names in code ----------------------------------------------------------------------------------------------------

#: The names in code, by its identity, which the code beside them keeps. Its hash would take longer, and where constants
#: have none there is none.
_names: dict[int, tuple[CodeType, Set[str]]] = {}


def names_in(code: CodeType) -> Set[str]:
    """The names of globals and attributes that a function and those inside of it use, and texts that may be names."""
    known = _names.get(id(code))
    if known is not None:
        return known[1]
    names = set(code.co_names)
    if compares_by_identity(code):
        names.add(_IDENTITY)
    if handles_errors(code):
        names.add(_HANDLER)
    for const in code.co_consts:
        kind = type(const)
        if kind is str:
            if const.isidentifier():
                names.add(const)
        elif kind is CodeType:
            names |= names_in(const)
            if const.co_name in _COMPREHENSIONS:
                names.add(const.co_name)
        elif kind is tuple or kind is frozenset:
            names.update(_texts_in(const))
    if len(_names) >= _MOST:
        _names.clear()
    _names[id(code)] = code, names
    return names


def _texts_in(consts: Iterable[Any]) -> Iterator[str]:
    for const in consts:
        if type(const) is str and const.isidentifier():
            yield const
        elif isinstance(const, (tuple, frozenset)):
            yield from _texts_in(const)


# --- code that calls another function ---------------------------------------------------------------------------------

_PLACE_OF_THE_CALLEE = "a constant of the code, which is replaced by the function to call"


def code_that_calls(callee: Callable[..., Any], free_variables: tuple[str, ...]) -> CodeType:
    """Code that calls `callee` with its arguments, for a function with these free variables.

    A function only accepts code with the same free variables. The code runs with the globals of the function, which do
    not contain the callee, so the callee is one of the code's constants.
    """
    code = _code_of_call(free_variables)
    return code.replace(co_consts=tuple(callee if each == _PLACE_OF_THE_CALLEE else each for each in code.co_consts))


@functools.cache
def _code_of_call(free_variables: tuple[str, ...]) -> CodeType:
    names = ", ".join(free_variables)
    source = (
        f"def around({names}):\n"
        f"    def call(*args, **kwargs):\n"
        f"        ({names})\n"
        f"        callee = {_PLACE_OF_THE_CALLEE!r}\n"
        f"        return callee(*args, **kwargs)\n"
    )
    (around,) = _codes_in(compile(source, __file__, "exec"))
    (code,) = _codes_in(around)
    return code


def _code_that_hands_on(comprehension: CodeType, callee: Callable[..., Any]) -> CodeType:
    """Code for a comprehension that calls `callee` with what it goes over, and with the comprehension as a function."""
    names = "".join(f"{name}, " for name in comprehension.co_freevars)
    source = (
        f"def around({names}):\n"
        f"    def call(items):\n"
        f"        def comprehension(items): ({names})\n"
        f"        return {_PLACE_OF_THE_CALLEE!r}(items, comprehension)\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # A text is called here.
        (around,) = _codes_in(compile(source, __file__, "exec"))
    (call,) = _codes_in(around)
    (inner,) = _codes_in(call)
    others = {_PLACE_OF_THE_CALLEE: callee, inner: comprehension}
    return call.replace(co_consts=tuple(others.get(each, each) for each in call.co_consts))


def _codes_in(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


# --- calls of builtins, exchanged -------------------------------------------------------------------------------------


#: Finds where instructions start and end that load a name in code.
_Find = Callable[[CodeType, str], list[tuple[int, int]]]


class _Exchange(msgspec.Struct):
    own: CodeType
    ours: CodeType
    #: The names that are exchanged where they stand in it.
    names: frozenset[str]
    users: int = 0


class ExchangedCalls:
    """Exchanges calls of Python's builtins for calls of other functions, while `within` is active.

    They are exchanged in the code of the program's functions, so that all other code goes on calling Python's. What a
    file imports is found by any name, as by `from math import sqrt as root`; aliases of builtins are left alone.
    """

    def __init__(
        self,
        builtins: Mapping[str, Callable[..., Any]],
        imported: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]],
        of_modules: Mapping[ModuleType, Mapping[str, Callable[..., Any]]],
        methods: Mapping[str, Callable[..., Any]],
        are_identical: Callable[[Any, Any], bool],
        note_caught: Callable[[BaseException], bool],
        comprehension: Callable[[Any, Callable[[Any], Any]], Any],
    ) -> None:
        """With the functions to call, by the names of the builtins in whose place they are called. `imported` are other
        functions, each with the one to call, by the names by which files import them; `of_modules` are those to call in
        the place of attributes of modules that a file has imported by any name. `methods` are called in the place
        of all methods of their names. `are_identical` says whether two are one where `is` asks it, and `note_caught` is
        told the errors that the program handles. `comprehension` is called with what each comprehension goes over, and
        the comprehension itself."""
        self._comprehension = comprehension
        self._are_identical, self._note_caught = are_identical, note_caught
        self._methods = methods
        self._imported, self._of_modules = imported, of_modules
        self._functions = {**builtins, **{name: ours for name, (_, ours) in imported.items()}}
        self._names_of = {id(function): name for name, (function, _) in imported.items()}
        self._names = frozenset({*self._functions, *methods, *_COMPREHENSIONS, _IDENTITY})
        self._ours = frozenset(map(id, (*self._functions.values(), *methods.values())))
        self._lock = threading.Lock()
        self._exchanges: dict[FunctionType, _Exchange] = {}
        #: By the identity of code: the code, the names that are exchanged in it, and what it is exchanged for. Its hash
        #: would take longer, and where constants have none there is none.
        self._known: dict[int, tuple[CodeType, frozenset[str], CodeType | None]] = {}

    def are_missed_in(self, code: CodeType) -> bool:
        """Whether code may call one of the builtins itself, and calls none of ours in their place."""
        ours = self._ours
        names = self._names.intersection(code.co_names)
        return not any(id(const) in ours for const in code.co_consts) and any(self._loads(code, each) for each in names)

    @contextmanager
    def within(
        self,
        own: Iterable[tuple[FunctionType, Set[str]]],
        of_libraries: Iterable[tuple[FunctionType, Set[str]]] = (),
        *,
        only_errors: bool = False,
    ) -> Iterator[None]:
        """A context in which the calls in these functions, of which the names are known, are exchanged, and errors are
        noted that the program's own functions handle; or only these."""
        calls = frozenset() if only_errors else self._names
        with self._exchanging([(each, calls | {_HANDLER}) for each in own] + [(each, calls) for each in of_libraries]):
            yield

    def comparing(self, own: Iterable[tuple[FunctionType, Set[str]]]) -> AbstractContextManager[None]:
        """A context in which only comparisons with `is` are exchanged."""
        return self._exchanging([(each, frozenset({_IDENTITY})) for each in own])

    @contextmanager
    def _exchanging(self, wanted: Iterable[tuple[tuple[FunctionType, Set[str]], frozenset[str]]]) -> Iterator[None]:
        """A context in which these names are exchanged in functions, each given with the names that it has."""
        found = [
            (function, names)
            for (function, in_it), names in wanted
            if not names.isdisjoint(in_it) or (self._names <= names and any(self._aliases(in_it, function.__globals__)))
        ]
        used = []
        try:
            with self._lock:
                for function, names in found:
                    exchange = self._exchanges.get(function)
                    if exchange is None or not names <= exchange.names:
                        exchange = self._exchange(function, names, exchange)
                    if exchange is not None:
                        exchange.users += 1
                        used.append(function)
            yield
        finally:
            with self._lock:
                for function in used:
                    exchange = self._exchanges[function]
                    exchange.users -= 1
                    if not exchange.users:
                        del self._exchanges[function]
                        if function.__code__ is exchange.ours:
                            function.__code__ = exchange.own

    def _exchange(self, function: FunctionType, names: frozenset[str], before: _Exchange | None) -> _Exchange | None:
        """Give a function code that calls ours, if its own has one of these names. What was exchanged `before`, by
        another thread, stays so."""
        own, users = (function.__code__, 0) if before is None else (before.own, before.users)
        names |= frozenset() if before is None else before.names
        # A file may have functions of its own of these names.
        known = function.__globals__
        own_names = {name for name in self._functions if name in known and not self._is_imported(name, known[name])}
        aliases = self._aliases(names_in(own), known) if self._names <= names else ()
        ours = self._with_ours(own, (names - own_names) | {*self._attributes(own, known), *aliases})
        if ours is None:
            return None
        function.__code__ = ours
        exchange = self._exchanges[function] = _Exchange(own, ours, names, users)
        return exchange

    def _attributes(self, code: CodeType, known: Mapping[str, Any]) -> Iterator[str]:
        """The functions of modules that code may call, as the names of the global and of its attribute."""
        names = names_in(code)
        for name in names & known.keys():
            if type(known[name]) is ModuleType and (functions := self._of_modules.get(known[name])) is not None:
                yield from (f"{name}.{attribute}" for attribute in names & functions.keys())

    def _aliases(self, names: Set[str], known: Mapping[str, Any]) -> Iterator[str]:
        """The names by which a file has imported a function, each with the function's own."""
        for name in names:
            own = self._names_of.get(id(known.get(name)))
            if own is not None and own != name:
                yield f"{name}={own}"

    def _is_imported(self, name: str, value: Any) -> bool:
        return name in self._imported and value is self._imported[name][0]

    def _with_ours(self, code: CodeType, meant: frozenset[str]) -> CodeType | None:
        """The code of a function that calls ours in place of the builtins of these names; None if it calls none."""
        known = self._known.get(id(code))
        if known is None or known[1] != meant:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[id(code)] = code, meant, self._exchanged(code, meant)
        return known[2]

    def _exchanged(self, code: CodeType, meant: frozenset[str]) -> CodeType | None:
        """What `_with_ours` keeps for code: the code that calls ours, also in its inner functions, or None.

        A load of a global that is called becomes one of a constant, in as many bytes, so that no line and no jump is
        moved.
        """
        consts = list(code.co_consts)
        is_changed = False
        for at, const in enumerate(code.co_consts):
            if type(const) is CodeType and (inner := self._with_ours(const, meant)) is not None:
                consts[at] = inner
                is_changed = True
            if type(const) is CodeType and const.co_name in _COMPREHENSIONS & meant:
                consts[at] = _code_that_hands_on(consts[at], self._comprehension)
                is_changed = True
        called = [name for name in code.co_names if name in meant]
        changed = bytearray(code.co_code)
        exchanges = [(name, *each) for name in called for each in self._exchanges_of(name)]
        exchanges += [(name, self._function_named(name), _loads_of_attribute, False) for name in meant if "." in name]
        aliases = [name.partition("=") for name in meant if "=" in name]
        exchanges += [(name, self._functions[own], _loads_to_call, False) for name, _, own in aliases]
        for name, called_instead, find, is_method in exchanges:
            loads = find(code, name)
            if loads:
                consts.append(called_instead)
                is_changed = True
            for start, end in loads:
                changed[start:end] = _loading(len(consts) - 1, end - start, is_method)
        identity = self._are_identical if _IDENTITY in meant and compares_by_identity(code) else None
        caught = self._note_caught if _HANDLER in meant and handles_errors(code) else None
        if not is_changed and identity is None and caught is None:
            return None
        ours = code.replace(co_code=bytes(changed), co_consts=tuple(consts))
        return ours if identity is None and caught is None else asking(ours, identity, caught)

    def _exchanges_of(self, name: str) -> Iterator[tuple[Callable[..., Any], _Find, bool]]:
        """What is called in the place of a global, and of a method, of this name; how loads of it are found; and
        whether it is a method."""
        if name in self._functions:
            yield self._functions[name], _loads_to_call, False
        if name in self._methods:
            yield self._methods[name], _loads_of_method, True

    def _function_named(self, name: str) -> Callable[..., Any]:
        """What is called in the place of an attribute of a module, by the name of a global and its own."""
        attribute = name.partition(".")[2]
        return next(functions[attribute] for functions in self._of_modules.values() if attribute in functions)

    def _loads(self, code: CodeType, name: str) -> list[tuple[int, int]]:
        """Where instructions start and end that load a global, or a method, of this name to call it."""
        return [place for _, find, _ in self._exchanges_of(name) for place in find(code, name)]


def _loads_to_call(code: CodeType, name: str) -> list[tuple[int, int]]:
    """Where instructions start and end that load the global of this name, to be called."""
    if name not in code.co_names:
        return []
    number = code.co_names.index(name)
    return _find(code.co_code, _LOAD_GLOBAL, number << 1 | 1)  # The lowest bit tells that it is loaded to be called.


def _loads_of_method(code: CodeType, name: str) -> list[tuple[int, int]]:
    """Where instructions start and end that load the method of this name, to be called."""
    number = code.co_names.index(name)
    if _LOAD_METHOD is None:
        return _find(code.co_code, _LOAD_ATTR, number << 1 | 1)
    return _find(code.co_code, _LOAD_METHOD, number)


def _loads_of_attribute(code: CodeType, dotted: str) -> list[tuple[int, int]]:
    """Where instructions start and end that load the attribute of a module that is a global, to be called."""
    name, _, attribute = dotted.partition(".")
    if name not in code.co_names or attribute not in code.co_names:
        return []
    number = code.co_names.index(attribute)
    attributes = dict(_find(code.co_code, _LOAD_ATTR, number if _LOAD_METHOD is not None else number << 1))
    if not _NULL_IS_ABOVE:
        return [(start, attributes[end]) for start, end in _loads_to_call(code, name) if end in attributes]
    found = _find(code.co_code, _LOAD_GLOBAL, code.co_names.index(name) << 1)
    called = [(start, attributes[end]) for start, end in found if end in attributes]
    return [(start, end + 2) for start, end in called if code.co_code[end] == _PUSH_NULL]


def _find(instructions: bytes, operation: int, argument: int) -> list[tuple[int, int]]:
    """Where an instruction with this argument starts and ends."""
    load = bytes([operation, argument & 255])
    loads = []
    at = instructions.find(load)
    while at >= 0:
        start, end, whole = at, at + 2, instructions[at + 1]
        # An instruction is two bytes. Those before may give more bits of the argument, eight each.
        while start and instructions[start - 2] == _EXTENDED_ARG:
            start -= 2
            whole |= instructions[start + 1] << 8 * ((at - start) // 2)
        while instructions[end : end + 1] == _CACHE:
            end += 2
        is_instruction = at % 2 == 0  # Otherwise it is an argument and the instruction after it.
        if is_instruction and whole == argument:
            loads.append((start, end))
        at = instructions.find(load, at + 1)
    return loads


def _loading(const: int, size: int, is_method: bool) -> bytes:
    """The instructions that load a constant to be called, in so many bytes. A method is below the object."""
    load = bytes([_EXTENDED_ARG, const >> 8, _LOAD_CONST, const & 255])
    null = bytes([_PUSH_NULL, 0])
    whole = load + bytes([_SWAP, 2]) if is_method else load + null if _NULL_IS_ABOVE else null + load
    return whole + bytes([_NOP, 0]) * ((size - len(whole)) // 2)
