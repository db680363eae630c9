"""The project whose declarations are run, and its settings: the table `[tool.parity]` of its `pyproject.toml`.

    [tool.parity]
    declarations = ["parity_cases"]     # files and folders
    tier         = "default"            # what the options of the same names say unless they are given
    opsets       = "9,13-18"
    exporters    = ["parity", "my_package.export:to_onnx"]
    runtimes     = ["onnxruntime", "backend:my_package.backend"]
    transforms   = ["none", "onnxslim+float16"]
    policy       = "gate.toml"          # of `parity gate`
    dtypes_in_turn = true               # the cases of torch's functions take other floating dtypes in turn

It is the nearest such file, from the working directory upwards, that has this table. Without one, the project is the
working directory. Where no declarations are named, they are looked for in the files directly in the project's folder.

The plug-in asks this of every pytest, also of those that run no declarations, so that nothing slow is imported here.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

FILE = "pyproject.toml"
_TABLE = "[tool.parity]"
#: What a file of declarations imports; in a clone of this project also by the folder's short name.
_VOCABULARY = (b"harness.case", b"harness.opinfo", b"harness import case")


#: Statements at the top of a module that may bind a name without an assignment.
_HIDDEN_ASSIGNMENTS = {"exec", "globals", "locals", "setattr", "vars"}


class SettingsError(Exception):
    """Settings that cannot be read. The message names the file, the setting, and what to write."""


@dataclass(frozen=True)
class Settings:
    """The settings of a project. For what is None or empty, the usual value holds."""

    #: Files and folders, relative to the file of the settings.
    declarations: tuple[str, ...] = ()
    tier: str | None = None
    opsets: str | None = None
    dtypes: tuple[str, ...] | None = None
    devices: tuple[str, ...] | None = None
    exporters: tuple[str, ...] | None = None
    captures: tuple[str, ...] | None = None
    runtimes: tuple[str, ...] | None = None
    transforms: tuple[str, ...] | None = None
    samples: int | None = None
    seed: int | None = None
    policy: str | None = None
    #: Whether the cases of torch's functions for which no dtype is named run in one of the others too, at one opset.
    dtypes_in_turn: bool = False
    #: Patterns of files, relative to the file of the settings, that cells read by other means than Python's `open`.
    data: tuple[str, ...] = ()

    def value_of(self, option: str) -> str | None:
        """The value of an option in the settings, as written on the command line; None if it is not there."""
        value = getattr(self, option)
        return ",".join(value) if isinstance(value, tuple) else None if value is None else str(value)


@dataclass(frozen=True)
class Project:
    """A folder, and the settings that it has."""

    root: Path
    settings: Settings
    #: Whether it has settings at all.
    is_configured: bool

    @cached_property
    def declarations(self) -> tuple[Path, ...]:
        """The files and folders with its declarations."""
        if self.settings.declarations:
            return tuple(self.root / each for each in self.settings.declarations)
        return tuple(file for file in files_of(self.root) if holds_declarations(file))

    @property
    def data(self) -> tuple[Path, ...]:
        """The files that the settings name as data."""
        return tuple(sorted({path for each in self.settings.data for path in self.root.glob(each) if path.is_file()}))

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def make_importable(self) -> None:
        """Let its modules be imported, as those of the working directory are by `python -m`."""
        if str(self.root) not in sys.path:
            sys.path.insert(0, str(self.root))


def find_project(folder: Path) -> Project:
    """The project of a folder: the nearest with settings, or the folder itself."""
    for root in (folder, *folder.parents):
        settings = _settings_in(root / FILE)
        if settings is not None:
            return Project(root, settings, is_configured=True)
    return Project(folder, Settings(), is_configured=False)


def holds_declarations(path: Path) -> bool:
    """Whether a file, or a file directly in a folder, imports what declarations are written with."""
    files = (file for file in files_of(path) if file.suffix == ".py" and file.is_file())
    return any(any(each in file.read_bytes() for each in _VOCABULARY) for file in files)


def files_of(place: Path) -> list[Path]:
    """The files of a folder that may have declarations, in their order; or the file itself."""
    return sorted(place.glob("*.py")) if place.is_dir() else [place]


def may_declare(file: Path, wanted: Callable[[str], bool]) -> bool:
    """Whether a module may assign a wanted name at its top, as far as its source shows."""
    import ast

    functions_and_classes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    try:
        top = [each for each in ast.parse(file.read_bytes()).body if not isinstance(each, functions_and_classes)]
    except SyntaxError:
        return True  # The error is reported when the file is imported.
    names = [node for each in top for node in ast.walk(each) if isinstance(node, ast.Name)]
    if any(node.id in _HIDDEN_ASSIGNMENTS for node in names):
        return True
    return any(isinstance(node.ctx, ast.Store) and wanted(node.id) for node in names)


def _settings_in(file: Path) -> Settings | None:
    try:
        data = file.read_bytes()
    except OSError:
        return None
    if b"parity" not in data:
        return None
    import tomllib

    try:
        table = tomllib.loads(data.decode()).get("tool", {}).get("parity")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{file}: line {line} is not UTF-8. Save the file in this encoding.") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: {error}") from error
    return None if table is None else _check_settings(table, file)


def _check_settings(table: object, file: Path) -> Settings:
    import msgspec

    from onnx_parity.harness import axes

    names = [field.name for field in fields(Settings)]
    where = f"{file}: {_TABLE}"
    if not isinstance(table, dict):
        raise SettingsError(f"{where} is no table. Write its settings below it: {', '.join(names)}.")
    for name in table:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"It may hold {', '.join(names)}."
            raise SettingsError(f"{where} has {name}, which is no setting. {hint}")
    try:
        settings = msgspec.convert(table, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"{where}: {error}. opsets, tier and policy are texts, samples and seed are numbers, dtypes_in_turn is "
            "true or false, and the others are lists of texts."
        ) from error
    for path in settings.declarations:
        if not (file.parent / path).exists():
            raise SettingsError(f"{where} has declarations in {path}, and {file.parent / path} does not exist.")
    try:
        axes.read_selection(settings.value_of)
    except axes.AxisError as error:
        raise SettingsError(f"{where}: {str(error).removeprefix('--')}") from error
    return settings
