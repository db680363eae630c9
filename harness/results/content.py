"""Hashes of the files on which a cell's outcome depends: the exporter, the harness, and the cell's declaration."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from onnx_parity.harness.axes import BACKEND, RUNTIME_NAMES

_PACKAGES = ("exporter", "harness")
#: Parts of the harness that are not used to run cells.
_NOT_INVOLVED = (
    "harness/commands/", "harness/gate/", "harness/localisation/", "harness/drawing/",
    "harness/cli.py",
)  # fmt: skip


def room_folder(package: str) -> Path:
    spec = find_spec(f"onnx_parity.{package}")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def contents(subjects: Iterable[str] = ()) -> dict[str, str]:
    """The hash of each file that is used to run cells, by its name, such as `exporter/operators/shape/lowering.py`.

    `subjects` are the names of exporters and runtimes. Those of a user, `my_package.export:to_onnx`, have files too.
    """
    found: dict[str, str] = {}
    for module in filter(None, map(module_of, subjects)):
        found |= _own_files(module)
    for package in _PACKAGES:
        folder = room_folder(package)
        for path in sorted(folder.rglob("*.py")):
            name = f"{package}/{path.relative_to(folder).as_posix()}"
            if not name.startswith(_NOT_INVOLVED):
                found[name] = _hash(path.read_bytes())
    return found


def module_of(subject: str) -> str:
    """The module of an exporter `module:function` or a runtime `backend:module`; empty for those of this project."""
    if subject.startswith(BACKEND):
        return subject.removeprefix(BACKEND)
    module, colon, _ = subject.partition(":")
    return module if colon and subject not in RUNTIME_NAMES else ""


def _own_files(module: str) -> dict[str, str]:
    """The files of the top-level package or module that a module belongs to. The installed have versions instead."""
    name = module.partition(".")[0]
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return {}
    file = Path(spec.origin)
    if "site-packages" in file.parts:
        return {}
    if file.name != "__init__.py":
        return {file.name: _hash(file.read_bytes())}
    folder = file.parent
    files = sorted(folder.rglob("*.py"))
    return {f"{name}/{path.relative_to(folder).as_posix()}": _hash(path.read_bytes()) for path in files}


@cache
def hash_declaration(file: Path, name: str) -> str:
    """A hash of the declaration called `name`, and of the code that it can use in its file and in files beside it.

    Declarations that it does not refer to are left out, so that a new row does not change the hashes of other rows.
    """
    declarations, rest = _parts(file)
    # The cases of `opinfo = entries(...)` are named `opinfo.add` and so on.
    seen = _reachable(name.partition(".")[0], declarations)
    return _hash("\0".join([rest, *(declarations[each] for each in sorted(seen))]).encode())


def lines_of(file: Path, name: str) -> list[int]:
    """The lines at which a file assigns a public name at its top level."""
    return [
        node.lineno
        for node in _parse_file(file).body
        if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
    ]


@cache
def _parse_file(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _parts(file: Path) -> tuple[dict[str, str], str]:
    """The public names that a file assigns at its top level, with their source, and the source of everything else."""
    lines = file.read_text(encoding="utf-8").splitlines()
    declarations: dict[str, str] = {}
    rest = []
    imported: set[str] = set()
    for node in _parse_file(file).body:
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                # If a name is assigned twice, both sources are used.
                declarations[name] = "\n".join(filter(None, (declarations.get(name), source)))
            case _:
                rest.append(source)
        match node:
            case ast.ImportFrom(module=str(module)):
                imported.add(module.rpartition(".")[2])
            case ast.Import(names=names):
                imported.update(alias.name.rpartition(".")[2] for alias in names)
    rest += [path.read_text(encoding="utf-8") for path in _beside(file, imported)]
    return declarations, "\0".join(rest)


def _reachable(name: str, declarations: dict[str, str]) -> set[str]:
    seen: set[str] = set()
    left = [name]
    while left:
        each = left.pop()
        if each in declarations and each not in seen:
            seen.add(each)
            tree = ast.parse(declarations[each].strip())
            left += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return seen


def _beside(file: Path, imported: set[str]) -> list[Path]:
    """The files in its folder that a declaration file imports, and its data file."""
    candidates = [file.with_name(f"{name}.py") for name in sorted(imported)] + [file.with_suffix(".json")]
    return [path for path in candidates if path.exists() and path != file]


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
