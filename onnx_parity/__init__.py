"""Exports PyTorch programs to ONNX at every opset that runtimes still run, and checks the models with a harness.

import onnx_parity

program = onnx_parity.export(model, (x,), "model.onnx", opset_version=13, dynamic_axes={"x": {0: "batch"}})
y = program(x)

Every public name of `onnx_parity.exporter` is a name of this package too. The exporter is imported when the first of
them is used, so that a pytest that only loads the plug-in of `onnx_parity.harness` does not import torch.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_parity.exporter import *  # noqa: F403
    from onnx_parity.exporter import __all__ as __all__

__version__ = "0.1.0"

_HERE = os.path.dirname(os.path.abspath(__file__))
_EXPORTER = os.path.join(_HERE, "exporter")

if os.path.islink(_EXPORTER) or not os.path.isdir(_EXPORTER):
    # This is a clone of the project, where `exporter/`, `harness/` and the others are next to this folder. The links
    # in it are for editors and type checkers. Python looks into the clone itself: tracebacks then name the real files.
    from onnx_parity.short_names import alias_short_names

    _CLONE = os.path.dirname(_HERE)
    __path__.insert(0, _CLONE)  # noqa: F405
    alias_short_names(_CLONE)


if not TYPE_CHECKING:
    # A type checker would take every name for one of the package.
    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        exporter = import_module("onnx_parity.exporter")
        if name != "__all__" and name not in exporter.__all__:
            raise AttributeError(f"module 'onnx_parity' has no attribute {name!r}")
        value = globals()[name] = getattr(exporter, name)
        return value


def __dir__() -> list[str]:
    return [*globals(), *import_module("onnx_parity.exporter").__all__]
