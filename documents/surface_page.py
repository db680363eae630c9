"""docs/surface.md: every name and argument of `torch.onnx`, and the test that shows it in this package."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from documents.torch_onnx_names import DOCUMENTED, TORCH, WITH_MEMBERS, torchs

__all__ = ["SurfaceName", "exists", "page", "rows"]

_DECLARED = Path(__file__).with_name("shown_by.toml")
_HEAD = """# What torch.onnx offers, and this

Written by `python -m documents pages` from the signatures of `torch.onnx`, the documentation of its first three
generations, and `documents/shown_by.toml`. A test fails where this page is not what they say, where a name is missing,
and where a test that is named here is gone.
"""


@dataclass(frozen=True, slots=True)
class SurfaceName:
    group: str
    name: str
    #: The test that shows it, or the reason why this package does not have it.
    test: str
    why: str

    @property
    def spelled(self) -> str:
        if self.group in WITH_MEMBERS:
            return f"{self.group}.{self.name}"
        return f"{self.group}({self.name})" if self.name else self.group


def rows() -> tuple[list[SurfaceName], list[SurfaceName]]:
    """The rows of the early documentation's names and of today's. Raises KeyError for a name without a declaration."""
    declared: dict[str, dict[str, Any]] = tomllib.loads(_DECLARED.read_text())
    return (
        [_row(declared, group, name) for group, names in DOCUMENTED.items() for name in (names or ("",))],
        [_row(declared, group, name) for group, names in torchs().items() for name in (names or ("",))],
    )


def _row(declared: dict[str, dict[str, Any]], group: str, name: str) -> SurfaceName:
    entries = declared[group]
    entry = entries[name] if name in entries else entries[""]
    return (
        SurfaceName(group, name, "", entry["not"]) if isinstance(entry, dict) else SurfaceName(group, name, entry, "")
    )


def exists(test: str, root: Path) -> bool:
    """Whether the test exists: a file, or a function in it."""
    file, _, function = test.partition("::")
    path = root / file
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return function in names if function else any(name.startswith("test_") for name in names)


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    documented, today = rows()
    for title, part in (("The documentation's first three generations", documented), (f"torch.onnx {TORCH}", today)):
        supported = sum(not row.why for row in part)
        yield f"## {title}\n\n{supported} of {len(part)} are here.\n"
        yield "| name | here | shown by, or why not |\n|---|---|---|"
        yield from (
            f"| `{row.spelled}` | {'no' if row.why else 'yes'} | {row.why or _link(row.test)} |" for row in part
        )
        yield ""


def _link(test: str) -> str:
    file, _, function = test.partition("::")
    return f"[{function or Path(file).stem}](../{file})"
