"""Code of a function in which each loop ends at its head, and each path at the end of the function.

A loop that is left, `return` and `else` are written down otherwise, so that what records the loop sees all of its
iterations end in one way:

    for row in x:                       left = False
        if row.sum() > 2:               for row in x:
            found = True                    left = False
            break                           for _ in (0,):
                                                if row.sum() > 2:
                                                    found = True
                                                    left = True
                                                    break
                                            if leaves(left):
                                                break

A `return` in a loop also notes what is returned. Statements that may ask about what a loop has found stand in loops
over `paths()`, which runs them on each of their paths. The code is compiled from the text of the function's file.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType, FunctionType
from typing import Any

from onnx_parity.exporter.torch_inside.loops.comprehensions import COMPREHENDED, separate_comprehensions
from onnx_parity.exporter.torch_inside.loops.statements import (
    FUNCTIONS,
    LOOPS,
    AsStatements,
    asks,
    begin_with_condition,
    breaks,
    leaves,
    leaves_loop,
    may_be_structured,
    own,
    returns,
)
from onnx_parity.exporter.torch_inside.loops.text_of_code import compiled, key_of, text_of

__all__ = [
    "asked_at",
    "asked_in",
    "comprehensions_of",
    "function_of",
    "functions_at",
    "is_added",
    "of_comprehensions",
    "place_in_function",
    "read_at_the_end",
    "structured",
    "structuring",
    "to_the_end_of",
]

#: The names of variables that no program has.
_VALUE, _RETURNED, _ONCE = "what is returned", "has returned", "once"
_TO_THE_END, _TOGETHER, _AT_LINE = ":to the end", ":together", ":line "
_PATHS, _LEAVES = "onnx_parity: the paths of some statements", "onnx_parity: whether a loop is left"
#: The names of code that belongs to a function.
_INNER = frozenset({"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})
#: What the keys of the comprehensions of a function end with.
_COMPREHENSIONS = ":comprehensions"
#: How far to the right in its line what is not in the program is said to stand, so that no two are at one place.
_BEHIND = 10_000


def read_at_the_end(frame: FrameType) -> frozenset[str]:
    """The variables of a function that may be read behind statements at its end: what is returned, and what inner
    functions have too."""
    return frozenset({_VALUE, _RETURNED, *frame.f_code.co_cellvars, *frame.f_code.co_freevars})


def function_of(frame: FrameType) -> str:
    """The key of the function that a frame runs."""
    return key_of(frame.f_code)


def comprehensions_of(frame: FrameType) -> str:
    """The key of the comprehensions in the function that a frame runs, which may be one of them."""
    at: FrameType | None = frame
    while at is not None and (at.f_code.co_filename != frame.f_code.co_filename or at.f_code.co_name in _INNER):
        at = at.f_back
    return function_of(at or frame) + _COMPREHENSIONS


def of_comprehensions(keys: Set[str]) -> Set[str]:
    """Those of the keys that are of comprehensions."""
    return {key for key in keys if key.endswith(_COMPREHENSIONS)}


def to_the_end_of(frame: FrameType) -> str:
    """A key for the function of a frame that is to have all statements from the first that asks on the same paths."""
    return function_of(frame) + _TO_THE_END


def asked_in(functions: Iterable[FunctionType], places: Set[tuple[str, int]]) -> set[str]:
    """The keys of the functions that have the code of these lines of files, and of these lines in them."""
    codes = _codes_at(functions, places)
    return {f"{key_of(code)}{end}" for place, found in codes.items() for code in found for end in _ends(place)}


def _ends(place: tuple[str, int]) -> tuple[str, str]:
    return "", f"{_AT_LINE}{place[1]}"


def asked_at(frame: FrameType) -> list[str]:
    """The keys of the function of a frame, which is around a comprehension, and of the line that it has reached."""
    at: FrameType | None = frame
    while at is not None and at.f_code.co_name in _INNER:
        at = at.f_back
    at = at or frame
    return [f"{function_of(at)}{end}" for end in _ends((at.f_code.co_filename, at.f_lineno))]


def to_the_end_in(functions: Iterable[FunctionType], places: Set[tuple[str, int]]) -> set[str]:
    """The keys for the functions that have the code of these lines of files, for what `to_the_end_of` says: all that
    they ask is on the same paths."""
    codes = _codes_at(functions, places).values()
    return {key_of(code) + end for found in codes for code in found for end in (_TO_THE_END, _TOGETHER)}


def place_in_function(frame: FrameType) -> str:
    """A key of where a frame is in its function."""
    return f"{function_of(frame)}:{frame.f_lasti}"


def functions_at(functions: Iterable[FunctionType], places: Set[tuple[str, int]]) -> set[str]:
    """The keys of the functions, inner ones among them, that have the code of these lines of files."""
    return {key_of(max(found, key=_line_of)) for found in _codes_at(functions, places).values()}


def _line_of(code: CodeType) -> int:
    return code.co_firstlineno


def _codes_at(
    functions: Iterable[FunctionType], places: Set[tuple[str, int]]
) -> Mapping[tuple[str, int], list[CodeType]]:
    """The code of the functions that have these lines of files, the inner ones before those around them."""
    files = {file for file, _ in places}
    found: dict[tuple[str, int], list[CodeType]] = {}
    waiting = [function.__code__ for function in functions if function.__code__.co_filename in files]
    while waiting:
        code = waiting.pop()
        for _, _, line in code.co_lines() if code.co_name not in _INNER else ():
            place = code.co_filename, line or 0
            if place in places and code not in (known := found.setdefault(place, [])):
                known.insert(0, code)
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]
    return found


def is_added(frame: FrameType) -> bool:
    """Whether a frame runs what is in no program, but in code that was written down otherwise."""
    places = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    _, _, column, _ = next(places, (None,) * 4)
    return column is not None and column >= _BEHIND


def structured(
    code: CodeType,
    paths: Callable[[bool, bool], object],
    leaves: Callable[[object], object],
    comprehended: Callable[[Any, Callable[[Any], Any]], object] | None = None,
    *,
    keys: Set[str] | None = None,
) -> CodeType | None:
    """The code of a function, written down otherwise. None where its text is not known, or cannot be written so.

    Comprehensions are written down as calls of `comprehended`, if it is given. Statements have paths unless there are
    `keys` and that of the function is not among them; the others say more about it.
    """
    key = key_of(code)
    lines = [each.removeprefix(key + _AT_LINE) for each in keys or () if each.startswith(key + _AT_LINE)]
    has_paths, to_the_end, together = (keys is None or key + end in keys for end in ("", _TO_THE_END, _TOGETHER))
    how = _How(comprehended is not None, has_paths, to_the_end and keys is not None, together and keys is not None)
    made = _written_otherwise(_SameCode(code), how, frozenset(map(int, lines)))
    return made and _with_called(made, {_PATHS: paths, _LEAVES: leaves, COMPREHENDED: comprehended})


@dataclass(frozen=True)
class _How:
    """How the code of a function is written down."""

    has_comprehended: bool
    has_paths: bool
    #: Whether what follows the first statement that asks something is on the same paths.
    to_the_end: bool
    #: Whether what asks within statements that have paths has none of its own.
    together: bool


@dataclass(frozen=True, eq=False)
class _SameCode:
    """Code that equals only itself. That of another file may be equal otherwise, and what a compiler generates may
    contain constants that have no hash."""

    code: CodeType

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameCode) and self.code is other.code

    def __hash__(self) -> int:
        return id(self.code)


@functools.lru_cache(maxsize=512)  # A program is recorded several times.
def _written_otherwise(same: _SameCode, how: _How, asking: frozenset[int]) -> CodeType | None:
    """The code of a function that calls texts, in whose places the functions to call come. Statements with one of the
    lines `asking` are known to ask."""
    text = text_of(same.code)
    if text is None:
        return None
    tree, function = text
    if isinstance(function, ast.Lambda) and how.has_paths:
        function = AsStatements(function).within(tree)
    if how.has_comprehended:
        separate_comprehensions(function)
    if how.has_paths and isinstance(function, ast.FunctionDef) and may_be_structured(function):
        function.body = _Structure(function, how, asking).body
    elif not how.has_comprehended:
        return None
    made = compiled(tree, same.code)
    return None if made is None or made.co_freevars != same.code.co_freevars else made


def _with_called(code: CodeType, called: Mapping[object, object]) -> CodeType:
    """Code with the functions that it calls in the place of their texts, also in what is inside of it."""
    consts = [
        _with_called(each, called)
        if isinstance(each, CodeType)
        else called.get(each, each)
        if type(each) is str
        else each
        for each in code.co_consts
    ]
    return code.replace(co_consts=tuple(consts))


@contextmanager
def structuring(
    functions: Iterable[FunctionType],
    keys: Set[str],
    paths: Callable[[bool, bool], object],
    leaves: Callable[[object], object],
    comprehended: Callable[[Any, Callable[[Any], Any]], object],
) -> Iterator[None]:
    """A context in which functions have other code where their own, or that of inner functions, has one of the keys."""
    changed: list[tuple[FunctionType, CodeType]] = []
    try:
        for function in functions:
            own = function.__code__
            made = _with_structured(own, keys, paths, leaves, comprehended)
            if made is not own:
                changed.append((function, own))
                function.__code__ = made
        yield
    finally:
        for function, own in changed:
            function.__code__ = own


def _with_structured(
    code: CodeType,
    keys: Set[str],
    paths: Callable[[bool, bool], object],
    leaves: Callable[[object], object],
    comprehended: Callable[[Any, Callable[[Any], Any]], object],
) -> CodeType:
    """Code in which that with the keys is written down otherwise."""
    key, made = key_of(code), code
    has_paths, has_own = key in keys, key + _COMPREHENSIONS in keys
    if has_paths or has_own:
        made = structured(code, paths, leaves, comprehended if has_own else None, keys=keys) or code
    inner = [
        _with_structured(const, keys, paths, leaves, comprehended) if isinstance(const, CodeType) else const
        for const in made.co_consts
    ]
    if all(one is other for one, other in zip(inner, made.co_consts, strict=True)):
        return made
    return made.replace(co_consts=tuple(inner))


class _Structure:
    def __init__(self, function: ast.FunctionDef, how: _How, asking: frozenset[int]) -> None:
        self._count = 0
        #: The lines that are known to ask something.
        self._asking = asking
        self._to_the_end, self._together = how.to_the_end, how.together
        #: Where what is added is said to stand.
        self._at: ast.stmt = function.body[0]
        body = function.body
        if not isinstance(body[-1], ast.Return):
            body = [*body, self._placed(ast.Return(ast.Constant(None)), body[-1])]
        self.body = [
            self._assigned(_RETURNED, ast.Constant(False)),
            *self._of_function(body),
            self._placed(ast.Return(self._read(_VALUE)), body[-1]),
        ]
        for each in self.body:
            ast.fix_missing_locations(each)

    def _of_function(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements of the function itself, up to its end."""
        made: list[ast.stmt] = []
        waiting = [*statements]
        while waiting:
            each = self._at = waiting.pop(0)
            has_return = returns(each)
            if isinstance(each, LOOPS) and not (self._to_the_end and self._is_asked(each) and leaves_loop(each)):
                loop, behind = self._loop(each)
                waiting = [*behind, *waiting]
                made += loop
                if has_return:
                    check = self._if(self._read(_RETURNED), [ast.Break()])
                    return [*made, *self._on_paths([check, *self._in_paths(waiting)], *waiting, to_the_end=True)]
            elif isinstance(each, ast.Return):
                returned = self._assigned(_VALUE, each.value or ast.Constant(None))
                return [*made, *(self._on_paths([returned], each) if self._asks(each) else [returned])]
            elif has_return or (self._to_the_end and self._asks(each)):
                following = [each, *waiting]
                return [*made, *self._on_paths(self._in_paths(following), *following, to_the_end=True)]
            elif isinstance(each, ast.With):
                each.body = self._of_function(each.body)
                made.append(each)
            elif self._asks(each):
                made += self._on_paths(self._within(each, self._in_paths), each)
            else:
                made += self._within(each, self._in_paths)
        return made

    def _in_paths(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements in a loop of one iteration, which is left where the function is."""
        made: list[ast.stmt] = []
        for each in statements:
            self._at, has_return = each, returns(each)
            if isinstance(each, ast.Return):
                made += [self._assigned(_VALUE, each.value or ast.Constant(None)), self._placed(ast.Break())]
            elif isinstance(each, LOOPS):
                loop, behind = self._loop(each)
                made += loop
                if has_return:
                    made.append(self._if(self._read(_RETURNED), [ast.Break()]))
                made += self._in_paths(behind)
            elif not self._together and self._is_asked(each) and not leaves([each]):
                made += self._on_paths(self._within(each, self._in_paths), each)
            else:
                made += self._within(each, self._in_paths)
        return made

    def _loop(self, loop: ast.For | ast.While) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """A loop, and what is behind it if it has an `else`."""
        if isinstance(loop, ast.While):
            begin_with_condition(loop)
        if not (loop.orelse or leaves_loop(loop)):
            asking = [each for each in loop.body if self._is_asked(each)]
            if leaves(asking):  # By a `continue`.
                loop.body = self._on_paths(self._in_loop(loop.body, ""), *asking)
            else:
                loop.body = [made for each in loop.body for made in self._nested(each)]
            return [loop], []
        self._count += 1
        left, at = f"has left loop {self._count}", loop
        has_break = breaks(loop.body)
        once = self._for_once(ast.Tuple([ast.Constant(0)], ast.Load()), self._in_loop(loop.body, left))
        self._at = at
        behind = loop.orelse
        if behind and has_break:
            behind = [self._if(ast.UnaryOp(ast.Not(), self._read(left)), behind)]
        asked = ast.Call(ast.Constant(_LEAVES), [self._read(left)], [])
        loop.body = [self._assigned(left, ast.Constant(False)), once, self._if(asked, [ast.Break()])]
        loop.orelse = []
        return [self._assigned(left, ast.Constant(False)), loop], behind

    def _nested(self, statement: ast.stmt) -> list[ast.stmt]:
        """A statement of a loop that ends at its head as it is."""
        self._at = statement
        if isinstance(statement, LOOPS):
            loop, behind = self._loop(statement)
            return [*loop, *(self._on_paths(behind, *behind) if behind else [])]
        made = self._within(statement, lambda inner: [made for each in inner for made in self._nested(each)])
        return self._on_paths(made, statement) if self._asks(statement) and not leaves([statement]) else made

    def _in_loop(self, statements: Sequence[ast.stmt], left: str) -> list[ast.stmt]:
        """Statements of a loop, in a loop of one iteration."""
        made: list[ast.stmt] = []
        for each in statements:
            self._at, has_return = each, returns(each)
            leaving = [self._assigned(left, ast.Constant(True)), self._placed(ast.Break())]
            if isinstance(each, ast.Break):
                made += leaving
            elif isinstance(each, ast.Continue):
                made.append(self._placed(ast.Break()))
            elif isinstance(each, ast.Return):
                made += [
                    self._assigned(_VALUE, each.value or ast.Constant(None)),
                    self._assigned(_RETURNED, ast.Constant(True)),
                    *leaving,
                ]
            elif isinstance(each, LOOPS):
                loop, behind = self._loop(each)
                made += loop
                if has_return:
                    made.append(self._if(self._read(_RETURNED), leaving))
                made += self._in_loop(behind, left)
            else:
                stays = self._asks(each) and not leaves([each])
                within = self._within(each, lambda inner: self._in_loop(inner, left))
                made += self._on_paths(within, each) if stays else within
        return made

    def _within(self, statement: ast.stmt, change: Callable[[list[ast.stmt]], list[ast.stmt]]) -> list[ast.stmt]:
        """A statement that is no loop, with the statements in it changed. Paths within a `try` are those of the whole
        of it, since an error may leave them."""
        before, self._together = self._together, self._together or isinstance(statement, (ast.Try, ast.TryStar))
        if not isinstance(statement, FUNCTIONS):
            for name in ("body", "orelse", "finalbody"):
                if inner := getattr(statement, name, None):
                    setattr(statement, name, change(inner))
            for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                part.body = change(part.body)
        self._together = before
        return [statement]

    # --- what is added --------------------------------------------------------------------------------------------

    def _placed(self, node: ast.stmt, at: ast.stmt | None = None) -> ast.stmt:
        """A statement that is said to stand where another one does, in a column of its own."""
        at = at or self._at
        self._count += 1
        column = _BEHIND + self._count
        for each in ast.walk(node):
            if "lineno" in each._attributes and not hasattr(each, "lineno"):
                each.lineno = each.end_lineno = at.lineno  # type: ignore[attr-defined]
                each.col_offset, each.end_col_offset = column, column + 1  # type: ignore[attr-defined]
        return node

    def _read(self, name: str) -> ast.expr:
        return ast.Name(name, ast.Load())

    def _assigned(self, name: str, value: ast.expr) -> ast.stmt:
        return self._placed(ast.Assign([ast.Name(name, ast.Store())], value))

    def _if(self, asked: ast.expr, body: list[ast.stmt]) -> ast.stmt:
        return self._placed(ast.If(asked, body, []))

    def _for_once(self, items: ast.expr, body: list[ast.stmt]) -> ast.stmt:
        return self._placed(ast.For(ast.Name(_ONCE, ast.Store()), items, body, []))

    def _on_paths(self, statements: list[ast.stmt], *written: ast.stmt, to_the_end: bool = False) -> list[ast.stmt]:
        """Statements that are run on each of their paths, behind which the function ends or goes on; `written` are
        those of the program."""
        flags = ast.Constant(to_the_end), ast.Constant(any(map(self._is_asked, written)))
        if any(isinstance(each, ast.Break) for statement in statements for each in own(statement)):
            statements = [self._for_once(ast.Tuple([ast.Constant(0)], ast.Load()), statements)]
        return [self._for_once(ast.Call(ast.Constant(_PATHS), [*flags], []), statements)]

    # --- what asks ------------------------------------------------------------------------------------------------

    def _asks(self, statement: ast.stmt) -> bool:
        """Whether a statement asks something itself, as far as its form tells, or is known to."""
        return asks(statement) or self._is_asked(statement)

    def _is_asked(self, statement: ast.stmt) -> bool:
        """Whether a statement has one of the lines that are known to ask."""
        is_other = not self._asking or isinstance(statement, FUNCTIONS)
        return not is_other and not self._asking.isdisjoint(range(statement.lineno, (statement.end_lineno or 0) + 1))
