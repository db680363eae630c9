"""The structure of the project: allowed imports, no circles, and no folder or file that is too large."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import start
from tests.of_change import commands_for
from tests.rooms import lines_by_room, outgrown

ROOT = Path(start.__file__).parent
PACKAGE = "onnx_parity"
#: The folders of the package, and what each may import of the others. A module named here stands for itself and what is
#: below it.
MAY_IMPORT = {
    "exporter": (),
    "harness": ("exporter",),
    "op_cases": ("harness.case", "harness.onnx_node", "harness.opinfo"),
    "model_zoo": ("harness.case", "harness.zoo"),
    "reports": (
        "harness.conformance.entries",
        "harness.conformance.manifest",
        "harness.conformance.submission",
        "harness.record",
        "harness.store",
        "harness.escaping",
        "harness.opset_ranges",
        "harness.results.causes",
        "harness.results.completeness",
        "harness.results.content",
        "harness.results.scoreboard",
        "harness.run_store_error",
        "harness.search.ledger",
    ),
    "benchmarks": (
        "exporter",
        "harness",
        "model_zoo.all_of_transformers",
        "model_zoo.libraries",
        "model_zoo.torchvision_import",
    ),
    "documents": ("exporter", "harness"),
}
#: The commands that write reports are where the harness meets them.
MEETING_PLACES = {"harness/commands/report.py", "harness/commands/scoreboard.py"}

#: The folders of a room in the order in which they build on each other: each may import those before it.
LAYERS = {
    "exporter": (
        "torch_inside", "expressions", "request", "graph", "registry", "kinds", "sizes", "dispatch",
        "recording", "program_state", "script", "sources", "recurrences", "files", "fallback", "lowering",
        "operators", "patches", "tracing", "rewrites", "torch_onnx", "runtime", "verification",
    ),
    "exporter/lowering": ("schema", "values", "opsets", "custom"),
    "exporter/rewrites": ("engine", "tables", "for_onnxruntime"),
    "harness": (
        "onnx_cases", "cases", "subjects", "transformations", "halves", "results", "operators", "expecting", "matrix",
        "judging", "reuse", "running", "conformance", "cluster", "gate", "localisation", "drawing", "bisecting",
        "search", "any_size", "sensitivity", "pytest_plugin", "commands",
    ),
}  # fmt: skip

#: More files of code than this in a folder, or more lines in a file, and nobody finds anything in it.
MOST_FILES, MOST_LINES = 20, 500
#: Folders whose files are all of one kind, one for each family of operators or command.
FAMILIES = {"harness/commands", "op_cases", "op_cases/onnx", "model_zoo"}


def imported(source: str, *, while_checking_types: bool = True) -> Iterator[str]:
    """Every module that a file imports, wherever in it; of a name that is imported, the module may be its parent."""
    return (name for name, for_types in _imports(source) if while_checking_types or not for_types)


@cache
def _imports(source: str) -> tuple[tuple[str, bool], ...]:
    """What `imported` yields, and whether a name is imported for types alone."""
    return tuple(_imports_of(ast.parse(source).body, for_types=False))


def _imports_of(statements: Iterable[ast.AST], *, for_types: bool) -> Iterator[tuple[str, bool]]:
    for node in statements:
        if isinstance(node, ast.Import):
            yield from ((alias.name, for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports here are absolute"
            assert node.module
            yield from ((f"{node.module}.{alias.name}", for_types) for alias in node.names)
        else:
            of_body = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            yield from _imports_of(getattr(node, "body", ()), for_types=for_types or of_body)
            for block in ("orelse", "finalbody", "handlers", "cases"):
                yield from _imports_of(getattr(node, block, ()), for_types=for_types)


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def is_below(module: str, parent: str) -> bool:
    return module == parent or module.startswith(f"{parent}.")


@cache
def modules() -> Mapping[str, str]:
    """Module of the package to its file: `exporter.errors` is `exporter/errors.py`."""
    found = {}
    for room in MAY_IMPORT:
        for path in files(room):
            name = path.relative_to(ROOT).with_suffix("").as_posix()
            found[name.removesuffix("/__init__").replace("/", ".")] = path.relative_to(ROOT).as_posix()
    return found


@cache
def dependencies(room: str) -> Mapping[str, frozenset[str]]:
    """File to the files that it imports when it runs, those of packages left out."""
    found: dict[str, frozenset[str]] = {}
    for path in files(room):
        if path.name == "__init__.py":
            continue
        file = path.relative_to(ROOT).as_posix()
        names = [name.removeprefix(f"{PACKAGE}.") for name in imported(path.read_text(), while_checking_types=False)]
        targets = [modules().get(name) or modules().get(name.rpartition(".")[0]) for name in names]
        found[file] = frozenset(
            each for each in targets if each is not None and each != file and not each.endswith("__init__.py")
        )
    return found


def circle_in(graph: Mapping[str, frozenset[str]]) -> list[str]:
    """What is left of a graph when all that lies on no circle, nor on a way to one, is taken away."""
    left = {node: set(targets) for node, targets in graph.items()}
    while True:
        ends = {node for node, targets in left.items() if not targets & left.keys()}
        if not ends:
            return sorted(left)
        left = {node: targets - ends for node, targets in left.items() if node not in ends}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_folder_imports_only_what_it_may(room: str) -> None:
    others = [f"{PACKAGE}.{other}" for other in MAY_IMPORT if other != room]
    allowed = [f"{PACKAGE}.{module}" for module in MAY_IMPORT[room]]
    against = [
        (path.relative_to(ROOT).as_posix(), module)
        for path in files(room)
        for module in imported(path.read_text())
        if path.relative_to(ROOT).as_posix() not in MEETING_PLACES
        and any(is_below(module, other) for other in others)
        and not any(is_below(module, each) for each in allowed)
    ]
    assert against == []
    assert files(room), f"there is no {room} to look at"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_file_imports_by_a_short_name(room: str) -> None:
    assert [
        (path.relative_to(ROOT).as_posix(), module)
        for path in files(room)
        for module in imported(path.read_text())
        if module.partition(".")[0] in MAY_IMPORT and module.partition(".")[0] not in ("benchmarks", "documents")
    ] == []


@pytest.mark.parametrize("room", LAYERS)
def test_layers_build_on_those_before_them(room: str) -> None:
    layers = LAYERS[room]
    assert {path.name for path in (ROOT / room).iterdir() if (path / "__init__.py").exists()} <= {*layers, "script"}
    against = []
    for file, targets in dependencies(room).items():
        layer = file.removeprefix(f"{room}/").partition("/")[0]
        if layer in layers:
            for target in targets:
                other = target.removeprefix(f"{room}/").partition("/")[0]
                if other in layers and layers.index(other) > layers.index(layer):
                    against.append((file, target))
    assert against == []


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_circle_between_files(room: str) -> None:
    assert circle_in(dependencies(room)) == []


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_circle_between_folders(room: str) -> None:
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for file, targets in dependencies(room).items():
        folder = Path(file).parent
        for target in targets:
            other = Path(target).parent
            if other != folder and other not in folder.parents and folder not in other.parents:
                folders[folder.as_posix()].add(other.as_posix())
    assert circle_in({folder: frozenset(targets) for folder, targets in folders.items()}) == []


@pytest.mark.parametrize("room", ["exporter", "exporter/rewrites"])
def test_files_beside_folders_have_a_layer_too(room: str) -> None:
    """A file directly in a room is used by its folders or uses them, but not both."""
    parts: defaultdict[str, set[str]] = defaultdict(set)
    for file, targets in dependencies(room).items():
        part = file.removeprefix(f"{room}/").partition("/")[0]
        others = (target.removeprefix(f"{room}/") for target in targets if target.startswith(f"{room}/"))
        parts[part] |= {other.partition("/")[0] for other in others} - {part}
    assert circle_in({part: frozenset(others) for part, others in parts.items()}) == []


@pytest.mark.parametrize("room", ["exporter", "harness"])
def test_tests_lie_in_folders_named_as_those_of_the_code(room: str) -> None:
    folders = {path.parent.relative_to(ROOT / "tests" / room) for path in (ROOT / "tests" / room).rglob("test_*.py")}
    assert len(folders) > 10
    assert [folder.as_posix() for folder in sorted(folders) if not (ROOT / room / folder).is_dir()] == []


def test_no_folder_and_no_file_is_too_large() -> None:
    paths = [path for room in MAY_IMPORT for path in files(room)]
    tests = [path for path in files("tests") if path.name.startswith("test_")]
    counted = [path for path in [*paths, *tests] if path.name != "__init__.py"]
    count = Counter(path.parent.relative_to(ROOT).as_posix() for path in counted)
    assert {folder: number for folder, number in count.items() if number > MOST_FILES and folder not in FAMILIES} == {}
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in paths}
    assert {file: number for file, number in lines.items() if number > MOST_LINES} == {}


def test_no_room_outgrows_its_budget() -> None:
    lines = lines_by_room(ROOT)
    assert outgrown(lines) == {}, "is something in it written twice? See tests/rooms.py"
    assert outgrown(Counter({"exporter/graph": 10**6, "exporter/sizes": 1, "exporter/new": 5})).keys() == {
        "exporter/graph",
        "exporter/new",
    }


def test_no_lowering_asks_for_the_opset() -> None:
    against = [
        (path.name, node.lineno)
        for path in files("exporter/operators")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "opset"
    ]
    assert against == [], "what differs between opsets is a method of exporter/lowering/opsets"


def test_exporter_leans_on_no_other_exporter() -> None:
    forbidden = ("torch.onnx", "onnxscript")
    assert [
        (path.name, module)
        for path in files("exporter")
        for module in imported(path.read_text())
        if any(is_below(module, each) for each in forbidden)
    ] == []


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import a.b\nif TYPE_CHECKING:\n    import g\ndef f():\n    from c.d import e\n"
    assert sorted(imported(source)) == ["a.b", "c.d.e", "g"]
    assert sorted(imported(source, while_checking_types=False)) == ["a.b", "c.d.e"]


def test_circles_are_found() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("bd"), "d": frozenset[str]()}
    assert circle_in(graph) == ["a", "b", "c"]
    assert circle_in({**graph, "c": frozenset("d")}) == []


def test_a_change_is_tested_by_the_tests_that_mirror_it() -> None:
    changed = [
        "exporter/operators/activation/lowering.py",
        "exporter/testing.py",
        "exporter/files/write.py",
        "op_cases/pooling.py",
        "tests/harness/matrix/test_cells.py",
        "exporter/__init__.py",
        "README.md",
    ]
    tests, *cells = commands_for(changed)
    structure = [f"tests/packaging/test_{each}.py" for each in ("rooms", "documents", "changelog", "surface")]
    always = [*structure, "tests/exporter/registry/test_index.py"]
    assert tests == ["pytest", "-q", *always, "tests/exporter/test_testing.py", "tests/exporter/files", changed[4]]
    assert cells == [
        ["onnx_parity", "run", "op_cases/pooling.py", "--tier", "default", "--no-report"],
        ["onnx_parity", "run", "op_cases/activation.py", "--tier", "smoke", "--no-report"],
    ]
    assert commands_for(["README.md"]) == [["pytest", "-q", *always]]
    assert commands_for(["exporter/rewrites/tables/arithmetic.py"]) == [
        ["pytest", "-q", *always, "tests/exporter/rewrites"],
        ["onnx_parity", "run", "op_cases/fused.py", "--tier", "default", "--no-report"],
    ]
