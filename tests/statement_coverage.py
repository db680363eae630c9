"""A pytest plug-in that prints which statements of the project's functions ran: `pytest -p tests.statement_coverage`.

With Python 3.11, which has no `sys.monitoring`, coverage.py costs the tests 60% more processor time, and it does not
see the forked processes in which cells run. Here each module is compiled with notes, `ran[17] = 1`, and `ran` is a file
that all processes of a run share by mapping it into their memory. This costs 3%, and 7 s for each process and the
report; nothing has to be merged, and nothing is lost if a process crashes.

A note counts the statements from it to the next branch. Statements outside of functions run on import, and are not
counted; nor is what other Python programs run that a test starts.
"""

from __future__ import annotations

import ast
import mmap
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ("exporter", "harness", "reports")
_NAME = "__statements_that_ran__"
#: The folder of the shared files. Processes that xdist starts have it in their environment.
_FOLDER_VARIABLE = "STATEMENTS_THAT_RAN"
_COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match)


def with_notes(source: bytes | str) -> tuple[ast.Module, list[int]]:
    """The tree of a file with a note before each run of statements in a function, and how many each note stands for."""
    tree = ast.parse(source)
    counts: list[int] = []
    for function in [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]:
        _note_in(function, counts)
    return tree, counts


def _note_in(node: ast.AST, counts: list[int]) -> None:
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, field, None)
        if field in ("handlers", "cases"):
            for each in block or ():
                _note_in(each, counts)
        elif isinstance(block, list) and block:
            setattr(node, field, list(_noted(block, counts)))
            for each in block:
                # Functions and classes inside are visited by themselves.
                if isinstance(each, _COMPOUND):
                    _note_in(each, counts)


def _noted(block: Sequence[ast.stmt], counts: list[int]) -> Iterator[ast.stmt]:
    begins = True
    for statement in block:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            yield statement  # A docstring.
            continue
        if begins:
            place = ast.Subscript(ast.Name(_NAME, ast.Load()), ast.Constant(len(counts)), ast.Store())
            note = ast.Assign([place], ast.Constant(1))
            counts.append(0)
            yield ast.fix_missing_locations(ast.copy_location(note, statement))
        counts[-1] += 1
        yield statement
        begins = isinstance(statement, _COMPOUND)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        # Not from the cache of compiled files, in which there are no notes.
        tree, self._counts = with_notes(self.get_data(self.path))
        return compile(tree, self.path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        if self._counts:
            vars(module)[_NAME] = _shared(Path(self.path), len(self._counts))
        exec(code, vars(module))


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not fullname.startswith(tuple(f"onnx_parity.{room}" for room in MEASURED)):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader and Path(spec.loader.path).is_relative_to(ROOT):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def _file_of(source: Path) -> Path:
    return Path(os.environ[_FOLDER_VARIABLE]) / source.relative_to(ROOT).as_posix().replace("/", "-")


def _shared(source: Path, size: int) -> mmap.mmap:
    """The notes of a file, in memory that all processes share."""
    descriptor = os.open(_file_of(source), os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def shares() -> dict[str, tuple[int, int]]:
    """Folder to the number of its functions' statements that ran, and of all."""
    found: dict[str, tuple[int, int]] = {}
    for source in sorted(file for room in MEASURED for file in (ROOT / room).rglob("*.py")):
        counts = with_notes(source.read_bytes())[1]
        kept = _file_of(source)
        notes = kept.read_bytes() if kept.exists() else bytes(len(counts))
        folder = "/".join(source.relative_to(ROOT).parts[:-1][:2])
        ran, of = found.get(folder, (0, 0))
        found[folder] = ran + sum(n for n, note in zip(counts, notes, strict=True) if note), of + sum(counts)
    return {folder: each for folder, each in found.items() if each[1]}


def pytest_addoption() -> None:
    """Called before anything that is measured is imported."""
    if _FOLDER_VARIABLE not in os.environ:
        os.environ[_FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="statements-")
    sys.meta_path.insert(0, _Finder())


_SHARES: pytest.StashKey[dict[str, tuple[int, int]]] = pytest.StashKey()


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput"):
        return
    config.stash[_SHARES] = found = shares()
    shutil.rmtree(os.environ[_FOLDER_VARIABLE])
    is_everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword
    if is_everything and not session.exitstatus and total(found) < floor():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash[_SHARES]
    terminalreporter.section("statements of functions that ran")
    for folder, (ran, of) in found.items():
        terminalreporter.write_line(f"{folder:28} {ran:6} of {of:6}  {ran / of:6.1%}")
    terminalreporter.write_line(f"total {total(found):.1f}%, and a run of everything has to reach {floor()}%")


def total(found: dict[str, tuple[int, int]]) -> float:
    """The share of all folders, in percent."""
    return 100 * sum(ran for ran, _ in found.values()) / sum(of for _, of in found.values())


def floor() -> float:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    share: float = settings["tool"]["statement_coverage"]["floor"]
    return share
