"""Private parts of torch, frames, code objects, garbage and imported modules are named in torch_inside/ alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import start

EXPORTER = Path(start.__file__).parent / "exporter"
#: Modules that have to be imported in torch_inside/; `opcode` and `dis` describe the instructions of code objects.
MODULES = ("torch.fx.experimental", "gc", "opcode", "dis", "importlib._bootstrap", "importlib.machinery")
#: Types of the module `types` that describe frames and code.
TYPES = frozenset({"CellType", "CodeType", "FrameType"})
#: Attributes of frames, of code and of functions.
ATTRIBUTES = frozenset(
    {
        "__closure__", "__code__", "cell_contents", "co_code", "co_consts", "co_filename", "co_firstlineno",
        "co_freevars", "co_names", "f_back", "f_code", "f_globals", "f_lasti", "f_lineno", "f_locals", "tb_frame",
    }
)  # fmt: skip
SYS = frozenset({"sys._getframe", "sys.meta_path", "sys.modules"})
#: Private attributes that are documented: those of a named tuple.
DOCUMENTED = frozenset({"_fields", "_replace"})


def is_private(name: str) -> bool:
    """Whether a dotted name is one of torch's private ones. The functions of operators are public, as their names."""
    root, *parts = name.split(".")
    if root not in ("torch", "torchvision") or parts[:1] == ["ops"]:
        return False
    return any(is_hidden(part) and not hasattr(torch.ops.aten, part) for part in parts)


def is_hidden(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def dotted(node: ast.expr) -> str:
    """`torch._C.Graph` for the expression; an empty text if it does not begin with a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def own_names(trees: list[ast.Module]) -> frozenset[str]:
    """The names of functions and attributes that the exporter itself defines."""
    names = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return frozenset(names)


def private_names(tree: ast.Module, own: frozenset[str]) -> Iterator[str]:
    """What a file names that is to be named in torch_inside/ alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for alias in node.names:
                name = f"{module}.{alias.name}" if module else alias.name
                is_listed = any(name == each or name.startswith(f"{each}.") for each in MODULES)
                if is_private(name) or is_listed or (module == "types" and alias.name in TYPES):
                    yield name
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            if is_private(name) or name in SYS or node.attr in ATTRIBUTES:
                yield name or node.attr
            elif is_hidden(node.attr) and node.attr not in own | DOCUMENTED and ".ops." not in f".{name}":
                is_operator = hasattr(torch.ops.aten, node.attr)
                if not is_operator and dotted(node.value) not in ("self", "cls"):
                    yield name or node.attr


def test_private_names_of_torch_are_in_one_folder() -> None:
    trees = {path.relative_to(EXPORTER).as_posix(): ast.parse(path.read_text()) for path in EXPORTER.rglob("*.py")}
    own = own_names(list(trees.values()))
    others = {file: tree for file, tree in trees.items() if not file.startswith("torch_inside/")}
    found = {file: sorted(set(private_names(tree, own))) for file, tree in others.items()}
    assert {file: names for file, names in found.items() if names} == {}, "import it from exporter/torch_inside"
    assert any(True for file, tree in trees.items() if file not in others for _ in private_names(tree, own))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from torch._ops import OpOverload", ["torch._ops.OpOverload"]),
        ("import gc", ["gc"]),
        ("from types import CodeType, FunctionType", ["types.CodeType"]),
        ("torch._C._functorch.maybe_current_level()", ["torch._C", "torch._C._functorch", "torch._C._functorch.x"]),
        ("op._schema", ["op._schema"]),
        ("sys.modules['torch']", ["sys.modules"]),
        ("self._own; cls._own; torch.ops.aten._softmax; aten._softmax; torch._shape_as_tensor; point._replace()", []),
    ],
)
def test_private_names_are_found(source: str, names: list[str]) -> None:
    found = set(private_names(ast.parse(source), frozenset()))
    assert sorted(found) == sorted(name.replace(".x", ".maybe_current_level") for name in names)
