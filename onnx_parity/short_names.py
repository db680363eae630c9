"""The short names of a clone: there `import exporter` is `import onnx_parity.exporter`, one module by two names.

Scripts and declaration files in a clone may say `exporter`, `harness.case` and so on, which are the folders that their
authors see. A project that has folders of these names itself keeps them: only what Python would find in this
clone is given the other name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_file_location
from types import ModuleType

__all__ = ["alias_short_names"]

_PACKAGE = "onnx_parity"
FOLDERS = ("exporter", "harness", "op_cases", "model_zoo", "reports")


def alias_short_names(clone: str) -> None:
    """Make the short names of the folders of a clone other names of the same modules, from now on."""
    sys.meta_path.insert(0, _ShortNames(clone))
    for folder in FOLDERS:
        begun = sys.modules.get(folder)
        if begun is not None and _is_at(begun.__spec__, clone, folder):
            # Somebody imported the short name first, and is why this package is imported.
            sys.modules[folder] = import_module(f"{_PACKAGE}.{folder}")


def _is_at(spec: ModuleSpec | None, clone: str, folder: str) -> bool:
    expected = os.path.join(clone, folder, "__init__.py")
    return spec is not None and spec.origin is not None and os.path.abspath(spec.origin) == expected


class _ShortNames(MetaPathFinder):
    def __init__(self, clone: str) -> None:
        self._clone = clone

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder, _, below = fullname.partition(".")
        if folder not in FOLDERS:
            return None
        if below:
            is_ours = sys.modules.get(folder) is sys.modules.get(f"{_PACKAGE}.{folder}")
        else:
            is_ours = _is_at(PathFinder.find_spec(folder, path), self._clone, folder)
        own = find_spec(f"{_PACKAGE}.{fullname}") if is_ours else None
        if own is None or own.origin is None:
            return None
        return spec_from_file_location(
            fullname, own.origin, loader=_SameModule(), submodule_search_locations=own.submodule_search_locations
        )


class _SameModule(Loader):
    """Loads a module by its short name: it is the module that the long name has."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"{_PACKAGE}.{spec.name}")
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # It has run. Python has put the spec of the short name into it.
        module.__spec__ = self._own
