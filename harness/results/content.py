"""Hashes of the files on which a cell's outcome depends: the exporter, the harness, and the cell's declaration."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import decode_source, find_spec
from pathlib import Path

from onnx_parity.harness.axes import BACKEND, RUNTIME_NAMES
from onnx_parity.harness.cases.watching import hash_of

_PROJECT, _PACKAGES = "onnx_parity", ("exporter", "harness")
#: Parts of the harness that are not used to run cells.
_NOT_INVOLVED = (
    "harness/commands/", "harness/conformance/", "harness/gate/", "harness/localisation/", "harness/drawing/",
    "harness/cli.py",
)  # fmt: skip


def room_folder(package: str) -> Path:
    spec = find_spec(f"{_PROJECT}.{package}")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def contents(subjects: Iterable[str] = (), data: Iterable[Path] = ()) -> dict[str, str]:
    """The hash of each file that is used to run cells, by its name, such as `exporter/operators/shape/lowering.py`.

    `subjects` are the names of exporters and runtimes. Those of a user, `my_package.export:to_onnx`, have files too.
    `data` are the files that the settings of a project name.
    """
    found = {str(path): hash_of(str(path)) for path in data}
    for module in filter(None, map(module_of, subjects)):
        found |= _own_files(module)
    for package in _PACKAGES:
        folder = room_folder(package)
        for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.json"))):
            name = f"{package}/{path.relative_to(folder).as_posix()}"
            if not name.startswith(_NOT_INVOLVED):
                found[name] = _hash(path.read_bytes())
    return found


def list_imported(path: Path) -> set[str]:
    """The modules of this project that a file of it imports, as paths: `exporter/lowering/shape`."""
    found: set[str] = set()
    for node in _statements(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {module.removeprefix(f"{_PROJECT}.").replace(".", "/") for module in found}


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of a file, and the clauses that hold some. Expressions are most of a tree, and hold none."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            within = getattr(node, block, ())
            left += within if isinstance(within, list) else ()


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
    """A hash of the declaration called `name`, and of the code that it can use: in its file, and in the files of its
    project that this one imports, directly or through others.

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
    return ast.parse(decode_source(file.read_bytes()))


@cache
def _parts(file: Path) -> tuple[dict[str, str], str]:
    """The public names that a file assigns at its top level, with their source, and the source of everything else."""
    lines = decode_source(file.read_bytes()).splitlines()
    declarations: dict[str, str] = {}
    rest = []
    for node in _parse_file(file).body:
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                # If a name is assigned twice, both sources are used.
                declarations[name] = "\n".join(filter(None, (declarations.get(name), source)))
            case _:
                rest.append(source)
    # The survey of samples of a file of OpInfo entries.
    beside = [each for each in (file.with_suffix(".json"),) if each.exists()]
    rest += [decode_source(path.read_bytes()) for path in (*imported_files(file), *beside)]
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


def imported_files(file: Path) -> list[Path]:
    """The files of a project that a file imports anywhere in it, directly or through others, without importing them.

    Those of the standard library and of installed packages are left out, and so are this project's exporter and
    harness, of which `contents` has all.
    """
    left = [file.resolve()]
    found = set(left)
    while left:
        new = _directly_imported(left.pop()) - found
        found |= new
        left += new
    return sorted(found - {file.resolve()})


@cache
def _directly_imported(file: Path) -> frozenset[Path]:
    # As pytest imports it: from its folder, or from the folder that its package is in.
    package = next(folder for folder in file.parents if not (folder / "__init__.py").exists())
    places = (str(file.parent), str(package), *sys.path)
    found: set[Path] = set()
    for node in ast.walk(_parse_file(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.update(_files_of(alias.name, places))
        elif isinstance(node, ast.ImportFrom):
            start = (str(file.parents[node.level - 1]),) if node.level else places
            module = f"{node.module}." if node.module else ""
            for alias in node.names:
                # What is imported may be a module itself.
                found.update(_files_of(f"{module}{alias.name}", start))
    return frozenset(found)


def _files_of(name: str, places: tuple[str, ...]) -> Iterator[Path]:
    """The files of a module and of the packages that it is in, if they are of a project."""
    within, parts = places, name.split(".")
    for number in range(len(parts)):
        found = _find_module(".".join(parts[: number + 1]), within)
        if found is None:
            return
        file, within = found
        if file is not None:
            yield file


@cache
def _find_module(name: str, places: tuple[str, ...]) -> tuple[Path | None, tuple[str, ...]] | None:
    """The file of a module, which not every package has, and the folders of a package. None if it is of no project."""
    if name in sys.stdlib_module_names:
        return None
    spec = PathFinder.find_spec(name, places)
    if spec is None:
        return None
    # What is within an archive is no file: whoever imports it depends on the archive.
    is_file = spec.origin is not None and spec.origin.endswith(".py") and Path(spec.origin).is_file()
    file = Path(spec.origin).resolve() if spec.origin is not None and is_file else None
    folders = tuple(spec.submodule_search_locations or ())
    if name == _PROJECT:
        return None, folders
    known = [*([file] if file is not None else []), *map(Path, folders)]
    return (file, folders) if any(map(_is_of_project, known)) else None


def _is_of_project(path: Path) -> bool:
    own = room_folder("harness").resolve()
    path = path.resolve()
    return "site-packages" not in path.parts and not any(map(path.is_relative_to, (own, own.with_name("exporter"))))


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
