"""Finds error messages of the exporter that no test asserts: `python -m tests.refusals`.

It finds each error message in the source of `exporter/`, runs the tests, and fails if no test asserts the text of one.
A text is asserted if a test catches an error whose message contains it, and compares it in
`pytest.raises(..., match=...)` or with a literal in an `assert`.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.assertion.rewrite import _call_assertion_pass
from _pytest.raises import RaisesExc

__all__ = ["Refusal", "Witness", "refusals_in", "refusals_of"]

_ROOT = Path(__file__).parents[1]
_BUILTIN = {"NotImplementedError", "RuntimeError", "TypeError", "ValueError"}
#: Methods that raise an error with the message that they are given.
_REFUSING = {"_refuse", "error", "require_opset", "unsupported"}
#: Shorter texts are not counted: they are punctuation around a message that was inserted.
_FEWEST = 8


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error message in the source: its literal parts, in order, without the values inserted between them."""

    file: str
    line: int
    words: tuple[str, ...]

    def is_shown_by(self, message: str, asserted: tuple[int, int]) -> bool:
        """Whether a message contains its parts, and the asserted range of the message covers enough of them."""
        found = re.search(r"[\s\S]*?".join(f"({re.escape(part)})" for part in self.words), message)
        if found is None:
            return False
        start, end = asserted
        spans = [found.span(number + 1) for number in range(len(self.words))]
        seen = sum(max(0, min(end, last) - max(start, first)) for first, last in spans)
        return seen >= min(2 * _FEWEST, sum(map(len, self.words)))


# --- messages in the source -------------------------------------------------------------------------------------------


def refusals_in(folder: Path) -> list[Refusal]:
    """The error messages of all modules of a package."""
    trees = {file: ast.parse(file.read_text()) for file in sorted(folder.rglob("*.py"))}
    constants: dict[str, ast.expr] = {}
    for tree in trees.values():
        constants |= {name: value for node in tree.body for name, value in _assigned(node)}
    errors = _BUILTIN | {name for tree in trees.values() for name in _error_classes(tree)}
    parent = folder.parent
    found: dict[tuple[str, ...], Refusal] = {}
    for file, tree in trees.items():
        for refusal in refusals_of(tree, str(file.relative_to(parent)), errors, constants):
            # The same text in two places counts as one message.
            found.setdefault(refusal.words, refusal)
    return list(found.values())


def refusals_of(
    tree: ast.Module, file: str, errors: set[str], constants: Mapping[str, ast.expr] | None = None
) -> list[Refusal]:
    """The error messages of a module: literal texts in calls that create or raise an error."""
    found: dict[tuple[str, ...], Refusal] = {}
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        known = {**(constants or {})}
        for node in ast.walk(scope):
            known.update(_assigned(node))
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and _called(node) in errors | _REFUSING:
                for argument in node.args:
                    for words in _wordings(argument, known):
                        if sum(map(str.isalpha, "".join(words))) >= _FEWEST:
                            found.setdefault(words, Refusal(file, node.lineno, words))
    return list(found.values())


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _error_classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        # Private error classes are caught by the exporter itself.
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            if any(base == "Exception" or base.endswith("Error") or base == "Unsupported" for base in bases):
                yield node.name


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value


def _wordings(node: ast.expr, known: Mapping[str, ast.expr]) -> list[tuple[str, ...]]:
    """The literal parts of a message, one tuple for each branch of a conditional expression."""
    if isinstance(node, ast.Constant):
        return [(node.value,)] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = (part.value for part in node.values if isinstance(part, ast.Constant))
        return [tuple(part for part in parts if isinstance(part, str))]
    if isinstance(node, ast.IfExp):
        return [*_wordings(node.body, known), *_wordings(node.orelse, known)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _wordings(node.left, known) or [()]
        return [(*one, *other) for one in left for other in _wordings(node.right, known) or [()]]
    if isinstance(node, ast.Name) and node.id in known:
        return _wordings(known[node.id], {name: value for name, value in known.items() if name != node.id})
    return []


# --- messages that tests assert ---------------------------------------------------------------------------------------


class Witness:
    """A pytest plug-in that collects the messages that tests caught, and the parts of them that they asserted."""

    def __init__(self) -> None:
        self.asserted: dict[str, set[tuple[int, int]]] = {}
        self._caught: list[str] = []

    def shows(self, refusal: Refusal) -> bool:
        return any(refusal.is_shown_by(message, part) for message, parts in self.asserted.items() for part in parts)

    def caught(self, error: BaseException, match: re.Pattern[str] | None) -> None:
        message = str(error)
        self._caught.append(message)
        found = match.search(message) if match is not None else None
        if found is not None:
            self.asserted.setdefault(message, set()).add(found.span())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._caught = []
        original = RaisesExc.__exit__

        def leaving(raises: RaisesExc[Any], kind: Any, error: Any, traceback: Any) -> bool:
            is_expected = original(raises, kind, error, traceback)
            if is_expected:
                self.caught(error, raises.match)
            return is_expected

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RaisesExc, "__exit__", leaving)
            yield

    def pytest_assertion_pass(self, item: pytest.Item, lineno: int, orig: str, expl: str) -> None:
        if not self._caught:
            return
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code is not _call_assertion_pass.__code__:
            frame = frame.f_back
        assert frame is not None and frame.f_back is not None, "pytest does not call this hook from a frame of the test"
        frame = frame.f_back
        for spelled in _spelled(ast.parse(orig, mode="eval").body):
            words = eval(compile(ast.Expression(spelled), "<assertion>", "eval"), frame.f_globals, frame.f_locals)
            for message in self._caught if isinstance(words, str) and words else ():
                start = message.find(words)
                if start >= 0:
                    self.asserted.setdefault(message, set()).add((start, start + len(words)))


def _spelled(assertion: ast.expr) -> Iterator[ast.expr]:
    """The operands of an assertion that a message is compared with, or that it starts with, ends with or contains."""
    if isinstance(assertion, ast.BoolOp) and isinstance(assertion.op, ast.And):
        for value in assertion.values:
            yield from _spelled(value)
    elif isinstance(assertion, ast.Compare) and isinstance(assertion.ops[0], ast.Eq):
        yield from (part for side in (assertion.left, *assertion.comparators) for part in _plain_parts(side))
    elif isinstance(assertion, ast.Compare) and isinstance(assertion.ops[0], ast.In):
        yield from _plain_parts(assertion.left)
    elif isinstance(assertion, ast.Call) and _called(assertion) in ("startswith", "endswith"):
        yield from (part for argument in assertion.args for part in _plain_parts(argument))


def _plain_parts(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression that can be evaluated again: those that call only `str` and `str.format`."""
    if isinstance(node, ast.List | ast.Tuple):
        for item in node.elts:
            yield from _plain_parts(item)
    elif all(_called(call) in ("format", "str") for call in ast.walk(node) if isinstance(call, ast.Call)):
        yield node
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from _plain_parts(part.value if isinstance(part, ast.FormattedValue) else part)


def main(arguments: Sequence[str]) -> int:
    witness = Witness()
    with tempfile.TemporaryDirectory() as folder:
        # pytest's cached bytecode does not report assertions that pass.
        sys.pycache_prefix = folder
        chosen = arguments or ["tests/exporter"]
        code = pytest.main(
            ["-q", "-n", "0", "-p", "no:cacheprovider", "-o", "enable_assertion_pass_hook=true", *chosen], [witness]
        )
    refusals = refusals_in(_ROOT / "exporter")
    unshown = [refusal for refusal in refusals if not witness.shows(refusal)]
    for refusal in unshown:
        print(f"{refusal.file}:{refusal.line}: {'…'.join(refusal.words)}")
    print(f"{len(refusals) - len(unshown)} of {len(refusals)} refusals have a test of their message")
    return int(code) or bool(unshown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
