"""What declarations really depend on: the files and packages that are imported and read for them.

While declarations are imported and cells run, imports and opened files are noted, each with the file of the code that
asked for it. What lies between (`importlib`, torch's loader) is passed over. So a file depends on what it imports at
its top, in a function, through a package's `__init__` or by a text, and on the data that it reads. So it does on the
variables of the environment that it asks for, on whether files are there, and on a program that it starts, of which
nobody knows what it does. Files of the exporter and the harness are not noted: a run lists all of them. What is read by
other means than Python's `open`, such as a library in C++ that is given a path, cannot be seen; a project's settings
name such files as `data`.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import os
import secrets
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, all_suffixes
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from onnx_parity.harness.cases.installed import involved, normalise, owners, with_required

__all__ = ["OF_THE_PROCESS", "PACKAGE", "PROGRAM", "Watch", "hash_of", "name_of", "own_files", "state_of", "watch"]

#: How a distribution that something depends on is written, after which its name follows: `package timm`; a variable of
#: the environment; and whether there is a file or a folder.
PACKAGE, VARIABLE, PRESENCE = "package ", "variable ", "presence of "
#: In the place of a name: all variables.
_ALL = "*"
#: A program was started, of which nobody knows what it does.
PROGRAM = "another program"
#: Variables that are others in each process, and matter to shells and pytest alone.
OF_THE_PROCESS = ("OLDPWD", "PWD", "PYTEST_", "SHLVL", "_")
#: A folder that is marked so stands for all modules of the package in it that have been imported.
_WHOLE = "/*"
_LARGE = 64 << 20
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PROJECT = Path(__file__).resolve().parents[2]
#: Of these, `RunInfo.contents` has all files. The file of the whole package only finds the others.
_OWN = (f"{_PROJECT}/exporter/", f"{_PROJECT}/harness/", f"{_PROJECT}/onnx_parity/", f"{_PROJECT}/__init__.py")
_NAME = "onnx_parity"
_OWN_MODULES = (f"{_NAME}.exporter", f"{_NAME}.harness")
_STANDARD = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))
#: The folders of installed packages.
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_SYSTEM = ("/proc/", "/sys/", "/dev/")


class Watch:
    """Imports and reads so far, as a graph. Its nodes are paths of files, and distributions."""

    def __init__(self) -> None:
        self._edges: dict[str, set[str]] = {}
        self._written: set[str] = set()
        self._seen: set[tuple[object, ...]] = set()
        #: Grows with the graph.
        self._turn = 0
        #: The files that declare cases, and those of tests that pytest collects beside them.
        self._collected: set[str] = set()
        self._known: dict[tuple[str, ...], tuple[tuple[int, int], tuple[str, ...]]] = {}
        #: The files of projects, and of how many modules these are.
        self._loaded: tuple[int, set[str]] = 0, set()

    def note(self, importer: str, wanted: str) -> None:
        targets = self._edges.setdefault(importer, set())
        if importer != wanted and wanted not in targets:
            targets.add(wanted)
            self._turn += 1

    def saw(self, key: tuple[object, ...]) -> bool:
        """Whether this is not the first time."""
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    def collects(self, file: Path) -> None:
        """A file declares cases, or has tests. Its packages are imported with it."""
        path = str(file)
        if path not in self._collected:
            self._collected.add(path)
            folder = file.parent
            while (folder / "__init__.py").exists():
                self.note(path, str(folder / "__init__.py"))
                folder = folder.parent

    def wrote(self, file: str) -> None:
        self._written.add(file)

    def needs(self, starts: Sequence[str]) -> tuple[str, ...]:
        """The files and distributions that files with these paths depend on, without the first of them.

        To these belong files of a project that have been imported and that no file depends on that declares cases or
        has tests, such as a `conftest.py`: nobody knows what they do.
        """
        now, key = (self._turn, len(sys.modules)), tuple(starts)
        known = self._known.get(key)
        if known is None or known[0] != now:
            known = now, self._find_needs(starts)
            self._known[key] = known
        return known[1]

    def _find_needs(self, starts: Sequence[str]) -> tuple[str, ...]:
        own = self._find_loaded()
        strangers = own - self._reach([*self._collected, *starts], own)
        found = self._reach([*starts, *strangers], own) - self._written - set(starts[:1])
        found -= {f"{PRESENCE}{file}" for file in (*self._written, *starts[:1])}
        packages = {node.removeprefix(PACKAGE) for node in found if node.startswith(PACKAGE)}
        # One that is not installed may be next time.
        packages = {*packages, *with_required(packages)} - involved()
        others = {node for node in found if not node.startswith(PACKAGE) and not node.endswith(_WHOLE)}
        # The content says more than that it is there.
        others -= {f"{PRESENCE}{node}" for node in others}
        return (*sorted(others), *(f"{PACKAGE}{name}" for name in sorted(packages)))

    def _find_loaded(self) -> set[str]:
        """The files of projects that have been imported."""
        if self._loaded[0] != len(sys.modules):
            modules = [module for name, module in [*sys.modules.items()] if name != "__main__"]
            files = {file for module in modules if (file := _file_of(module))}
            own = {file for file in files if any(not node.startswith(PACKAGE) for node in nodes_of(file))}
            self._loaded = len(sys.modules), own
        return self._loaded[1]

    def strangers(self) -> tuple[str, ...]:
        """The files of a project that have been imported, and for no file that declares cases or has tests."""
        return self.needs(())

    def _reach(self, starts: Iterable[str], loaded: Iterable[str]) -> set[str]:
        reached: set[str] = set()
        left = list(starts)
        while left:
            node = left.pop()
            if node not in reached:
                reached.add(node)
                left += self._edges.get(node, ())
                if node.endswith(_WHOLE):
                    left += [file for file in loaded if file.startswith(node.removesuffix("*"))]
        return reached


@cache
def watch() -> Watch:
    """The watch of this process. It begins with the first call, and ends with the process."""
    owners(), involved()  # These open files themselves.
    begun = Watch()
    _wrap_imports(begun)
    _wrap_questions(begun)
    sys.addaudithook(_see_events_for(begun))
    return begun


def own_files() -> set[str]:
    """The files of the exporter and the harness that have been imported. No node of a watch is one of them."""
    return {file for module in [*sys.modules.values()] if (file := _file_of(module)).startswith(_OWN[:2])}


def hash_of(file: str) -> str:
    """A hash of the content of a file, or of the names in a folder; `none` if there is neither. Of a file that takes
    long to read, the size and the time of its last change."""
    try:
        found = os.stat(file)
        if found.st_size > _LARGE:
            return f"{found.st_size}-{found.st_mtime_ns}"
        data = (
            "\0".join(sorted(os.listdir(file))).encode(errors="surrogateescape")
            if os.path.isdir(file)
            else Path(file).read_bytes()
        )
    except OSError:
        return "none"
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def name_of(needed: str, root: Path) -> str:
    """What `needs` names, with names of files relative to a folder."""
    kind = PRESENCE if needed.startswith(PRESENCE) else ""
    file = needed.removeprefix(kind)
    return f"{kind}{os.path.relpath(file, root)}" if os.path.isabs(file) else needed


def state_of(needed: str, root: Path) -> str:
    """What must be the same of something that `needs` names; of files, names are relative to a folder."""
    if needed.startswith(VARIABLE):
        name = needed.removeprefix(VARIABLE)
        every = (f"{each}={value}" for each, value in sorted(os.environ.items()) if not each.startswith(OF_THE_PROCESS))
        value = "\0".join(every) if name == _ALL else os.environ.get(name)
        return "none" if value is None else hashlib.blake2b(os.fsencode(value), digest_size=8).hexdigest()
    if needed.startswith(PRESENCE):
        file = root / needed.removeprefix(PRESENCE)
        return "folder" if os.path.isdir(file) else hash_of(str(file))
    # It is never the same.
    return secrets.token_hex(8) if needed == PROGRAM else hash_of(str(root / needed))


@cache
def nodes_of(file: str) -> tuple[str, ...]:
    """What a file is in the graph: itself, or the distributions that own it. Nothing if all outcomes depend on it."""
    file = os.path.abspath(file)
    if file.startswith((*_OWN, *_SYSTEM)):
        return ()
    parts = Path(file).parts
    for place in _PACKAGES:
        if place in parts[:-1]:
            names = owners().get(parts[parts.index(place) + 1])
            if names:
                return tuple(f"{PACKAGE}{name}" for name in names - involved())
            break  # It was put there by hand.
    else:
        if file.startswith(_STANDARD):
            return ()
    if not os.path.exists(file):
        # It may be within an archive that Python imports from.
        outer = next((each for each in Path(file).parents if each.exists()), None)
        if outer is not None and outer.is_file():
            return nodes_of(str(outer))
    folder, name = os.path.split(file)
    if os.path.basename(folder) == "__pycache__":
        source = os.path.join(os.path.dirname(folder), f"{name.partition('.')[0]}.py")
        return (source,)
    return (file,)


def _file_of(module: object) -> str:
    file = getattr(module, "__file__", None)
    # Modules that torch makes up have names that are no paths.
    return file if isinstance(file, str) and os.path.isabs(file) else ""


def _asking(frame: FrameType | None) -> str:
    """The file, or the distribution, of the code that asks for something; empty if it is nobody's of interest."""
    while frame is not None:
        # Code that is compiled from a file need not have a module.
        file = frame.f_globals.get("__file__") or frame.f_code.co_filename
        if not file.startswith("<") and (nodes := nodes_of(file)):
            return nodes[0]
        if _runs_cells(file):
            return ""
        frame = frame.f_back
    return ""


def _asking_itself(frame: FrameType | None) -> str:
    """The file of a project whose code asks for something itself, or by Python's own modules; empty if none does."""
    while frame is not None:
        file = frame.f_globals.get("__file__") or frame.f_code.co_filename
        if not _is_of_python(file):
            nodes = nodes_of(file)
            return nodes[0] if nodes and not nodes[0].startswith(PACKAGE) else ""
        frame = frame.f_back
    return ""


@cache
def _is_of_python(file: str) -> bool:
    """Whether code is of Python's own modules, of which some are frozen and have no file, or made up from a text."""
    # An environment has its packages in a folder of the standard library.
    return file.startswith("<") or (file.startswith(_STANDARD) and _PACKAGES.isdisjoint(Path(file).parts))


@cache
def _runs_cells(file: str) -> bool:
    """Whether code is of what runs cells: of what is behind it, the command line, nothing depends."""
    return file.startswith(_OWN) or any(f"/{each}/" in file for each in ("_pytest", "pluggy", "xdist", "typer"))


def _wrap_imports(watch: Watch) -> None:
    import_, import_module, find_spec = builtins.__import__, importlib.import_module, importlib.util.find_spec
    #: Modules that all outcomes depend on. torch imports such ones within functions, thousands of times in an export.
    of_no_interest = set[str]()

    def importing(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if not level and name in of_no_interest:
            return import_(name, globals, locals, fromlist or (), level)
        package = (globals or {}).get("__package__") or ""
        try:
            module = import_(name, globals, locals, fromlist or (), level)
        except ModuleNotFoundError as error:
            _note_absent(watch, _asking_itself(sys._getframe(1)), error.name or name)
            raise
        top = (package if level else name).partition(".")[0]
        known = sys.modules.get(top)
        # What stands for a module in a test is none.
        if name.startswith(_OWN_MODULES) or not isinstance(known, ModuleType):
            return module
        if not _is_of_interest(top, known):
            if not level:
                of_no_interest.add(name)
            return module
        if importer := _asking(sys._getframe(1)):
            full = importlib.util.resolve_name(f"{'.' * level}{name}", package) if level else name
            if not watch.saw((importer, full, tuple(fromlist or ()))):
                _note_import(watch, importer, full, fromlist or ())
        return module

    def import_by_text(name: str, package: str | None = None) -> ModuleType:
        try:
            module = import_module(name, package)
        except ModuleNotFoundError as error:
            _note_absent(watch, _asking_itself(sys._getframe(1)), error.name or name)
            raise
        if importer := _asking(sys._getframe(1)):
            full = importlib.util.resolve_name(name, package)
            _note_import(watch, importer, full, ())
        return module

    def found_by_text(name: str, package: str | None = None) -> ModuleSpec | None:
        spec = find_spec(name, package)
        if importer := _asking_itself(sys._getframe(1)):
            if spec is None:
                _note_absent(watch, importer, importlib.util.resolve_name(name, package))
            for node in nodes_of(spec.origin) if spec is not None and spec.has_location and spec.origin else ():
                watch.note(importer, node)
        return spec

    builtins.__import__ = importing
    importlib.import_module = import_by_text
    importlib.util.find_spec = found_by_text


def _wrap_questions(watch: Watch) -> None:
    """Note the variables that are asked for, and which files are looked for: Python tells no one of either."""
    variables, stat, access = type(os.environ), os.stat, os.access
    item, names = variables.__getitem__, variables.__iter__

    def value_of(environment: os._Environ[Any], name: Any) -> Any:
        # `os.environb` has names of bytes. What is no name is an error of its own.
        text = os.fsdecode(name) if isinstance(name, str | bytes) else ""
        if text and not text.startswith(OF_THE_PROCESS) and (importer := _asking_itself(sys._getframe(1))):
            watch.note(importer, f"{VARIABLE}{text}")
        return item(environment, name)

    def names_of(environment: os._Environ[Any]) -> Iterator[Any]:
        if importer := _asking_itself(sys._getframe(1)):
            watch.note(importer, f"{VARIABLE}{_ALL}")
        return names(environment)

    def look_for(path: Any, frame: FrameType) -> None:
        if not isinstance(path, int) and (importer := _asking_itself(frame)):
            for node in nodes_of(os.path.abspath(os.fsdecode(path))):
                if not node.startswith(PACKAGE):
                    watch.note(importer, f"{PRESENCE}{node}")

    def stat_of(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        look_for(path, sys._getframe(1))
        return stat(path, *arguments, **options)

    def can_access(path: Any, *arguments: Any, **options: Any) -> bool:
        look_for(path, sys._getframe(1))
        return access(path, *arguments, **options)

    variables.__getitem__ = value_of  # type: ignore[method-assign]
    variables.__iter__ = names_of  # type: ignore[method-assign]
    os.stat, os.access = stat_of, can_access
    for able in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        # Python asks which of its functions take what.
        able.update({stat_of} if stat in able else (), {can_access} if access in able else ())


@cache
def _is_of_interest(top: str, module: ModuleType | None) -> bool:
    """Whether something depends on a top-level module that not all outcomes depend on."""
    folders = _folders_of(module)
    files = [_file_of(module)] if _file_of(module) else [f"{each}/__init__.py" for each in folders]
    return any(nodes_of(file) for file in files) or top in (_NAME, "")


def _note_import(watch: Watch, importer: str, full: str, names: Sequence[str]) -> None:
    parts = full.split(".")
    for number in range(1, len(parts) + 1):
        _note_module(watch, importer, sys.modules.get(".".join(parts[:number])))
    # Whoever has a package as an object reaches every module that has been imported of it.
    whole = [sys.modules.get(parts[0]), sys.modules.get(full)] if not names else []
    base = sys.modules.get(full)
    for name in names:
        value = vars(base).get(name) if base is not None else None
        module = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        _note_module(watch, importer, module)
        whole.append(value if isinstance(value, ModuleType) else None)
    for package in whole:
        for folder in _folders_of(package):
            if any(not node.startswith(PACKAGE) for node in nodes_of(f"{folder}/__init__.py")):
                watch.note(importer, f"{folder}{_WHOLE}")


def _folders_of(module: object) -> Sequence[str]:
    """The folders of a package. `torch.classes` is a module that has an attribute of any name, which says nothing."""
    return [*vars(module).get("__path__", ())] if isinstance(module, ModuleType) else []


def _note_module(watch: Watch, importer: str, module: object) -> None:
    if file := _file_of(module):
        for node in nodes_of(file):
            watch.note(importer, node)
            if not node.startswith(PACKAGE):
                for other in _found_before(file):
                    watch.note(importer, other)


def _note_absent(watch: Watch, importer: str, full: str) -> None:
    """A file depends on a module that is not there, or a package that is not installed: it may be next time."""
    package, _, stem = full.rpartition(".")
    if importer and (not package or package in sys.modules):
        places = _folders_of(sys.modules[package]) if package else [os.path.abspath(each) for each in sys.path]
        for each in places:
            if nodes_of(f"{each}/{stem}.py") and os.path.isdir(each):
                for ending in (*all_suffixes(), f"{os.sep}__init__.py"):
                    watch.note(importer, os.path.join(each, f"{stem}{ending}"))
        if not package:
            watch.note(importer, f"{PACKAGE}{normalise(stem)}")


@cache
def _found_before(file: str) -> tuple[str, ...]:
    """The files that would be imported instead of a module's, if they were there."""
    folder, name = os.path.split(file)
    stem, ending = os.path.splitext(name)
    if stem == "__init__":
        folder, stem = os.path.split(folder)
    elif ending == ".py":
        return (os.path.join(folder, stem, "__init__.py"), *_on_the_path_before(folder, stem))
    return _on_the_path_before(folder, stem)


def _on_the_path_before(folder: str, stem: str) -> tuple[str, ...]:
    places = [os.path.abspath(each) for each in sys.path]
    before = places[: places.index(folder)] if folder in places else []
    own = (each for each in before if nodes_of(f"{each}/{stem}.py") and os.path.isdir(each))
    return tuple(os.path.join(each, name) for each in own for name in (f"{stem}.py", f"{stem}/__init__.py"))


#: What libraries in C open, and how programs are started.
_BY_LIBRARIES = ("ctypes.dlopen", "sqlite3.connect")
_OF_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
#: Python tells of each call of `id`, too: hundreds in a cell, which took 4% of its time while each was compared.
_SEEN = frozenset({"open", "os.listdir", "os.scandir", "os.mkdir", *_BY_LIBRARIES, *_OF_PROGRAMS})


def _see_events_for(watch: Watch) -> Callable[[str, tuple[Any, ...]], None]:
    def see(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _SEEN:
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int) or path is None:
                return
            writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITING)
            _see_file(watch, path, writes=writes)
        elif (
            event in ("os.listdir", "os.scandir")
            and isinstance(arguments[0], str | bytes | os.PathLike)
            # Python lists the folders in which it looks for modules.
            and "importlib" not in sys._getframe(1).f_code.co_filename
        ):
            _see_file(watch, arguments[0], writes=False)
        elif event == "os.mkdir":
            watch.wrote(os.path.abspath(os.fsdecode(arguments[0])))
        elif event in _BY_LIBRARIES and isinstance(arguments[0], str | bytes | os.PathLike):
            _see_file(watch, arguments[0], writes=False)
        elif event in _OF_PROGRAMS and (importer := _asking_itself(sys._getframe(1))):
            watch.note(importer, PROGRAM)

    return see


def _see_file(watch: Watch, path: Any, *, writes: bool) -> None:
    file = os.path.abspath(os.fsdecode(path))
    if writes:
        watch.wrote(file)
    elif nodes := nodes_of(file):
        importer = _asking(sys._getframe(2))
        for node in nodes if importer else ():
            watch.note(importer, node)
