"""What declarations depend on, as it is noted while they are imported and run: 200 random edits of a small project."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from onnx_parity.harness.cases.installed import installed, involved, normalise, states, with_required
from onnx_parity.harness.cases.watching import PACKAGE, PRESENCE, name_of, nodes_of, state_of
from onnx_parity.harness.matrix.since import Since
from onnx_parity.harness.record import Record
from tests.forked import run
from tests.records import INFO, RECORD

FEW_EDITS, MANY_EDITS = 12, 200
#: Files that declare something, each with its way to depend on others. `value` stands for what a cell computes.
_DECLARED = {
    "direct": """
import one
def value():
    return one.number()
""",
    "transitive": """
from two import number
def value():
    return number()
""",
    "lazy": """
def value():
    from lazily import number
    return number()
""",
    "through_package": """
from pack import number
def value():
    return number()
""",
    "attribute": """
import pack
def value():
    return pack.inner.number() + pack.deep.bottom.number()
""",
    "by_text": """
from importlib import import_module
def value():
    return import_module("by_" + "name").number() + __import__("pack.spare").spare.number()
""",
    "by_file": """
import importlib.util, pathlib
def value():
    here = pathlib.Path(__file__).parent / "odd" / "by_file_name.py"
    spec = importlib.util.spec_from_file_location("by_file_name", here)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.number()
""",
    "run": """
import pathlib, runpy
def value():
    return runpy.run_path(str(pathlib.Path(__file__).parent / "script.py"))["NUMBER"]
""",
    "data": """
import json, pathlib
_HERE = pathlib.Path(__file__).parent
_TOP = json.loads((_HERE / "top.json").read_text())
def value():
    return _TOP + int((_HERE / "inner.txt").read_bytes())
""",
    "listing": """
import os, pathlib
def value():
    return len(os.listdir(pathlib.Path(__file__).parent / "listed"))
""",
    "missing": """
import pathlib
def value():
    try:
        return int(open(pathlib.Path(__file__).parent / "maybe.txt").read())
    except OSError:
        return 0
""",
    "reader": """
from reading import read
def value():
    return read("through.txt")
""",
    "variable": """
import os
def value():
    return int(os.environ.get("SCALE", 1)) + int(os.getenv("OFFSET", "0")) + (b"SWITCH" in os.environb)
""",
    "presence": """
import os, pathlib
_HERE = pathlib.Path(__file__).parent
def value():
    return (_HERE / "flag").exists() + 2 * os.path.isdir(_HERE / "switch") + 4 * os.path.isfile(_HERE / "maybe.txt")
""",
    "shadowed": """
from hidden import number
def value():
    return number()
""",
    "child": """
import subprocess, sys, pathlib
def value():
    script = pathlib.Path(__file__).parent / "printing.py"
    return int(subprocess.run([sys.executable, "-S", "-E", script], capture_output=True).stdout or 0) if (
        script.exists()) else 0
""",
    "database": """
import pathlib, sqlite3
def value():
    file = pathlib.Path(__file__).parent / "numbers.db"
    return sqlite3.connect(f"file:{file}?mode=ro", uri=True).execute("pragma user_version").fetchone()[0]
""",
    "alone": """
def value():
    return 7
""",
}
_NUMBER = "def number():\n    return 1\n"
_FILES = {
    "one.py": _NUMBER,
    "two.py": "from three import *\n",
    "three.py": "from four import number as number\n",
    "four.py": _NUMBER,
    "lazily.py": "import five\ndef number():\n    return five.number()\n",
    "five.py": _NUMBER,
    "pack/__init__.py": "from . import inner\nfrom .inner import number\nfrom .deep import bottom as _b\nOFFSET = 0\n",
    "pack/inner.py": "def number():\n    from . import OFFSET\n    return 1 + OFFSET\n",
    "pack/deep/__init__.py": "",
    "pack/deep/bottom.py": _NUMBER,
    "pack/spare.py": _NUMBER,
    "by_name.py": _NUMBER,
    "odd/by_file_name.py": _NUMBER,
    "script.py": "NUMBER = 1\n",
    "top.json": "1",
    "inner.txt": "1",
    "through.txt": "1",
    "reading.py": """
import pathlib
def read(name):
    return int((pathlib.Path(__file__).parent / name).read_text())
""",
    "hidden.py": _NUMBER,
    "printing.py": "print(1)\n",
    "unused.py": _NUMBER,
}
#: Files that are not there at first, and variables.
_NEW_FILES = ("flag", "switch/a", "hidden/__init__.py", "maybe.txt")
_VARIABLES = ("SCALE", "OFFSET", "SWITCH")


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


#: Evaluates the declarations whenever it is given a line, in a process that has imported none of them yet, and prints
#: their values and what they depend on. It is no file of a project itself.
_SERVER = """
import importlib, json, os, sys
from pathlib import Path
from onnx_parity.harness.cases.watching import watch
root, names = Path(sys.argv[1]), sys.argv[2:]
sys.path.insert(0, str(root))
sys.dont_write_bytecode = True
watch()
for line in sys.stdin:
    if not os.fork():
        os.environ.update(json.loads(line))
        values = {}
        for name in names:
            watch().collects(root / f"{name}.py")
            try:
                values[name] = importlib.import_module(name).value()
            except Exception as error:
                values[name] = type(error).__name__
        print(json.dumps([values, {name: watch().needs([str(root / f"{name}.py")]) for name in names}]), flush=True)
        os._exit(0)
    os.wait()
"""


class _Server:
    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(root), *_DECLARED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def evaluate(
        self, variables: dict[str, str] | None = None
    ) -> tuple[dict[str, int | str], dict[str, tuple[str, ...]]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(variables or {}), file=self._process.stdin, flush=True)
        values, needs = json.loads(self._process.stdout.readline())
        return values, {name: tuple(each) for name, each in needs.items()}

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Server]:
    started = _Server(tmp_path)
    yield started
    started.end()


@dataclass(frozen=True)
class _Edit:
    #: Or the name of a variable.
    file: str
    text: str | None


def _draw(draw: random.Random) -> _Edit:
    kind = draw.randrange(9)
    number = draw.randrange(2, 90)
    if kind == 0:
        return _Edit(f"listed/{number}", "")
    if kind == 1:
        return _Edit(
            file := draw.choice(_NEW_FILES), _NUMBER.replace("1", str(number)) if file.endswith(".py") else "2"
        )
    if kind == 8:
        return _Edit(draw.choice(_VARIABLES), str(number))
    file = draw.choice(sorted(_FILES))
    text = _FILES[file]
    if kind == 2:
        return _Edit(file, None)
    if kind == 3:
        return _Edit(file, f"{text}\n# A comment.\n" if file.endswith(".py") else text)
    if kind == 4 and file.endswith(".py"):
        return _Edit(file, f"{text}\nraise ValueError({number})\n")
    return _Edit(file, text.replace("1", str(number)).replace("OFFSET = 0", f"OFFSET = {number}"))


@contextmanager
def _made(edit: _Edit, root: Path, base: dict[str, str]) -> Iterator[dict[str, str]]:
    """A context in which an edit is made. Yields the variables that it sets."""
    if edit.file in _VARIABLES:
        assert edit.text is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(edit.file, edit.text)
            yield {edit.file: edit.text}
        return
    path = root / edit.file
    path.parent.mkdir(exist_ok=True)
    path.unlink() if edit.text is None else path.write_text(edit.text)
    yield {}
    path.unlink(missing_ok=True)
    if path.parent != root and not any(path.parent.iterdir()):
        path.parent.rmdir()
    _write(root, {edit.file: base[edit.file]} if edit.file in base else {})


@pytest.mark.parametrize("edits", [FEW_EDITS, pytest.param(MANY_EDITS, marks=pytest.mark.slow)])
def test_whatever_changes_an_outcome_is_run(tmp_path: Path, server: _Server, edits: int) -> None:
    base = {**{f"{name}.py": text for name, text in _DECLARED.items()}, **_FILES, "listed/a": ""}
    _write(tmp_path, base)
    sqlite3.connect(tmp_path / "numbers.db").close()
    before, needs = server.evaluate()
    assert all(isinstance(value, int) for value in before.values()), before
    records: dict[str, Record] = {}
    for name, each in needs.items():
        assert not any(need.startswith(PACKAGE) for need in each)
        names = [name_of(need, tmp_path) for need in each]
        hashes = tuple(f"{need} {state_of(need, tmp_path)}" for need in names)
        records[name] = replace(RECORD, depends=hashes)
    draw = random.Random(0)
    seen = carried = 0
    for _ in range(edits):
        edit = _draw(draw)
        with _made(edit, tmp_path, base) as variables:
            now, _needs = server.evaluate(variables)
            since = Since(INFO, {}, frozenset(), root=tmp_path)
            run = {name for name, record in records.items() if since.find_changed(record)}
        changed = {name for name in _DECLARED if now[name] != before[name]}
        assert changed <= run, f"{edit}: {changed - run} changed and would have been carried over"
        seen += bool(changed)
        carried += len(_DECLARED) - len(run)
    # The edits change outcomes, and most declarations are left alone by each of them.
    assert seen > edits // 2
    assert carried > edits * len(_DECLARED) * 0.8


def test_a_file_that_was_written_first_is_no_dependency(tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text(
        "import pathlib\n_FILE = pathlib.Path(__file__).with_suffix('.made')\ndef value():\n"
        "    _FILE.write_text('1')\n    return int(_FILE.read_text())\n"
    )
    script = (
        "import importlib, sys\nfrom pathlib import Path\nfrom onnx_parity.harness.cases.watching import watch\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\nfile = Path({str(tmp_path)!r}) / 'writes.py'\nwatch().collects(file)\n"
        "importlib.import_module('writes').value()\nprint(watch().needs([str(file)]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert ended.stdout == "()\n"


def test_files_of_packages_are_their_distributions() -> None:
    assert nodes_of(str(Path(pytest.__file__))) == ()  # All outcomes depend on it.
    file = next(
        Path(path.locate()).resolve()
        for path in metadata.files("torchvision") or ()
        if str(path) == "torchvision/__init__.py"
    )
    assert nodes_of(str(file)) == (f"{PACKAGE}torchvision",)
    assert nodes_of(json.__file__) == ()
    assert nodes_of(__file__) == (os.path.abspath(__file__),)


def test_distributions_are_compared_by_version_and_content() -> None:
    assert normalise("onnx_ir") == "onnx-ir"
    assert {"torch", "onnx", "onnxruntime", "numpy", "sympy", "pytest"} <= involved()
    assert "torchvision" not in involved()
    assert "torch" in with_required(["torchvision"])
    version, _, content = states()["torchvision"].partition(" ")
    assert version == installed()["torchvision"].version
    assert len(content) == 16


def test_a_module_with_every_attribute_is_no_package(tmp_path: Path) -> None:
    program = """
import importlib, torch
from onnx_parity.harness.cases.watching import watch
watch()
print(importlib.import_module("torch.classes"))
"""
    done = run(tmp_path, "python", "-c", program)
    assert (done.code, done.text) == (0, f"{torch.classes}\n")


def test_a_name_that_no_file_can_have_is_not_there(tmp_path: Path) -> None:
    # Programs ask whether a text is a path.
    assert state_of(f"{PRESENCE}{tmp_path / ('x' * 5000)}", tmp_path) == "none"


def test_what_is_not_there_or_in_an_archive_and_all_variables_are_dependencies(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("within.py", "V = 1\n")
    asked = {
        "archive": "import within",
        "absent": "try:\n    importlib.import_module('no_such_module')\nexcept ImportError:\n    pass",
        "specification": "importlib.util.find_spec('other_module')",
        "access": "os.access(os.path.join(os.path.dirname(__file__), 'flag'), os.R_OK)",
        "variables": "dict(os.environ)",
    }
    for name, text in asked.items():
        (tmp_path / f"{name}_.py").write_text(f"import importlib.util, os\n{text}\n")
    program = f"""
import importlib, sys
from pathlib import Path
from onnx_parity.harness.cases.watching import name_of, watch
watch()
root = Path({str(tmp_path)!r})
sys.path[:0] = [str(root), str(root / "lib.zip")]
for name in {list(asked)!r}:
    watch().collects(root / f"{{name}}_.py")
    importlib.import_module(f"{{name}}_")
for name in {list(asked)!r}:
    print(*(name_of(each, root) for each in watch().needs([str(root / f"{{name}}_.py")])))
"""
    done = run(tmp_path, "python", "-c", program)
    assert done.code == 0
    found = [{*line.split()} for line in done.text.splitlines()]
    wanted = (
        {"lib.zip"},
        {"no_such_module.py", "no_such_module/__init__.py", "no-such-module"},
        {"other_module.py", "other-module"},
        {"presence", "flag"},
        {"variable", "*"},
    )
    assert all(each <= line for each, line in zip(wanted, found, strict=True))
    assert state_of("variable *", tmp_path) != "none"
