"""Refuses modules in `--runtimes backend:module`, and in `module:function` of other options, that do not exist."""

from __future__ import annotations

import difflib
import itertools
import pkgutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from onnx_parity.harness.axes import (
    BACKEND,
    EXPORTER_NAMES,
    RUNTIME_NAMES,
    TRANSFORMATION_NAMES,
    AxisError,
    Selection,
    converter_of,
)

__all__ = ["refuse_missing_modules"]


def refuse_missing_modules(selection: Selection, folders: Sequence[Path]) -> None:
    """Raise `AxisError` if the top-level module of a named runtime or exporter cannot be found.

    Such a name is most likely misspelt, and all of its cells would be absent without notice. A module that exists but
    fails when it is imported, perhaps because a package is missing, is not refused: its cells are absent, with the
    error. The folders are those that pytest may add to the import path while it collects.
    """
    for name in selection.runtimes or ():
        if name not in RUNTIME_NAMES:
            _refuse_missing("--runtimes", name, name.removeprefix(BACKEND), folders)
    for name in selection.exporters:
        if name not in EXPORTER_NAMES:
            _refuse_missing("--exporters", name, name.partition(":")[0], folders)
    for name in dict.fromkeys(itertools.chain.from_iterable(selection.transforms)):
        if name not in TRANSFORMATION_NAMES and converter_of(name) is None:
            _refuse_missing("--transforms", name, name.partition(":")[0], folders)


def _refuse_missing(option: str, name: str, module: str, folders: Sequence[Path]) -> None:
    top = module.partition(".")[0]
    path = [*sys.path, *map(str, folders)]
    if top in sys.modules or find_spec(top) is not None or PathFinder.find_spec(top, path) is not None:
        return
    near = difflib.get_close_matches(top, sorted({each.name for each in pkgutil.iter_modules(path)}), n=1, cutoff=0.8)
    hint = f"the nearest is {near[0]!r}" if near else "install it, or run in the folder that contains it"
    raise AxisError(f"{option} {name}: there is no module {top!r}; {hint}.")
