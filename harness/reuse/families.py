"""Which code of the exporter an export depends on: all of it, but of families of operators only what it has asked for.

The files of the families are apart from the rest of the exporter: one is imported when a rule in it is first asked for
(`exporter/registry/rules.py`), and no file outside of the families imports one. So an export has run code of the files
that have a rule which it has asked for, and of those that these import, and of no others. That there is no rule of a
name counts as well: one that is added is used.

The names of the operators that are replaced or kept whole count for each export. Whether an operator is among them is
asked when the exporter is imported, and not by an export.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from onnx_parity.harness.results.content import list_imported, room_folder

__all__ = ["Families"]

_FAMILIES = "exporter/operators/"
#: How a file that imports one of a family names it.
_NAMING = b"exporter.operators"
_INDEX = "registry/index.txt"
#: The aspects of which the exporter reads the names when it is imported.
_READ_AT_ONCE = ("INSTEAD", "WHOLE")
_DIGEST_BYTES = 16


class Families:
    """The files of the families of operators, among those of which the hashes are given."""

    def __init__(self, code: Mapping[str, str]) -> None:
        self._code = code
        self._root = room_folder("exporter").parent
        #: By file, a hash of it and of the files of families that it imports.
        self._hashes: dict[str, str] = {}

    @cached_property
    def beside(self) -> dict[str, str]:
        """What counts for each export: the hashes of all files that are of no family, and the names that are read at
        once."""
        names = sorted(name for (aspect, name) in self._index if aspect in _READ_AT_ONCE)
        return {name: text for name, text in self._code.items() if name not in self._apart} | {"names": " ".join(names)}

    def state_of(self, asked: Iterable[str]) -> str:
        """A hash of all code with rules that have been asked for. `LOWERING aten::elu` are those of an operator, and
        `SCRIPT` all rules of an aspect."""
        found: list[str] = []
        for each in asked:
            aspect, _, name = each.partition(" ")
            files = self._index.get((aspect, name), []) if name else self._files_of(aspect)
            found += [each, *(f"{file} {self._hash(file)}" for file in files if file in self._apart)]
        return _hash_of(found)

    @cached_property
    def _index(self) -> dict[tuple[str, str], list[str]]:
        """The files that have rules of an aspect for a name."""
        found: dict[tuple[str, str], list[str]] = {}
        for line in (self._root / "exporter" / _INDEX).read_text("utf-8").splitlines():
            module, aspect, *names = line.split()
            for name in names:
                found.setdefault((aspect, name), []).append(f"exporter/{module.replace('.', '/')}.py")
        return found

    def _files_of(self, aspect: str) -> list[str]:
        return sorted({file for (each, _), files in self._index.items() if each == aspect for file in files})

    @cached_property
    def _apart(self) -> frozenset[str]:
        """The files of families that no other file imports, directly or through one that another does."""
        within = {name for name in self._code if name.startswith(_FAMILIES) and not name.endswith("/__init__.py")}
        others = (name for name in self._code if name not in within and self._names_families(name))
        return frozenset(within - {file for name in others for file in self._imports(name, within)})

    def _names_families(self, name: str) -> bool:
        path = self._path(name)
        return path.exists() and _NAMING in path.read_bytes()

    def _imports(self, name: str, within: Iterable[str]) -> set[str]:
        """The files of these that a file imports, directly or through others of them."""
        found: set[str] = set()
        left = [name]
        while left:
            modules = list_imported(self._path(left.pop()))
            new = {f"{module}.py" for module in modules}.intersection(within) - found
            found |= new
            left += new
        return found

    def _hash(self, file: str) -> str:
        if file not in self._hashes:
            files = {file, *self._imports(file, self._apart)}
            self._hashes[file] = _hash_of(f"{each} {self._code[each]}" for each in sorted(files))
        return self._hashes[file]

    def _path(self, name: str) -> Path:
        return self._root / name


def _hash_of(texts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
