"""Collects files of declarations from their kept listings, without torch, where cells are listed and not run.

Editors ask `pytest --collect-only` for the tests whenever a file was saved. To import torch takes longer than all else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from onnx_parity.harness.axes import Selection
from onnx_parity.harness.matrix.listing import Listed, ListedFile, list_files
from onnx_parity.harness.project import holds_declarations
from onnx_parity.harness.pytest_plugin.options import option
from onnx_parity.harness.pytest_plugin.small_item import SmallItem
from onnx_parity.harness.results.content import lines_of

__all__ = ["ListedModule", "list_to_collect", "only_lists"]

#: Options that select among the cells by more than their names.
_OF_PARTS = ("shard", "since", "resume")
#: What a file imports whose tests are not known by their names.
_HIDDEN = ("*", "unittest")


def only_lists(config: pytest.Config) -> bool:
    """Whether all cells of the named files are listed, and none is run."""
    return (
        bool(config.option.collectonly)
        and not any(option(config, name) for name in _OF_PARTS)
        and not any("::" in argument for argument in config.args)
    )


def list_to_collect(config: pytest.Config, selection: Selection, runs: Path) -> dict[Path, ListedFile]:
    """The listings of the files that the command line names; none if one has a mistake, which pytest then reports."""
    places = [path for name in config.args if holds_declarations(path := config.invocation_params.dir / name)]
    try:
        listed = list_files(places, selection, runs)
    except Exception:  # noqa: BLE001  A file of declarations may raise anything.
        return {}
    names = [(Path(each.file), name) for each in listed for name in each.names]
    is_unique = len({name for _, name in names}) == len(names) and all(len(lines_of(*each)) == 1 for each in names)
    return {Path(each.file): each for each in listed} if is_unique else {}


class ListedModule(pytest.Module):
    """A file of declarations that is not imported."""

    listed: ListedFile

    @property
    def has_tests(self) -> bool:
        """Whether the file has, or imports, tests besides its declarations."""
        names: list[str] = []
        for each in ast.parse(self.path.read_bytes()).body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.append(each.name)
            elif isinstance(each, ast.Import | ast.ImportFrom):
                names += [alias.asname or alias.name for alias in each.names]
        return any(self.funcnamefilter(name) or self.classnamefilter(name) or name in _HIDDEN for name in names)

    def collect(self) -> Iterator[pytest.Collector]:
        for name, cases in groupby(self.listed.cases, lambda each: each.name):
            declaration: _ListedDeclaration = _ListedDeclaration.from_parent(self, name=name)
            declaration.cases = [*cases]
            yield declaration


class _ListedDeclaration(pytest.Collector):
    cases: Sequence[Listed]

    def collect(self) -> Iterator[pytest.Item]:
        for case in self.cases:
            for name in case.cells:
                cell: _ListedCell = _ListedCell.from_parent(self, name=name)
                cell.line = case.line
                yield cell


class _ListedCell(SmallItem):
    line: int

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name

    def runtest(self) -> None:
        raise NotImplementedError("A cell that is only listed has no program to run.")
