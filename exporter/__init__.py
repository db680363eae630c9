"""Exports PyTorch programs to ONNX, at every opset that runtimes still support.

import onnx_parity

program = onnx_parity.export(model, (x,), "model.onnx", opset_version=13, dynamic_axes={"x": {0: "batch"}})
y = program(x)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnx_parity.exporter.torch_inside.garbage import importing
from onnx_parity.exporter.torch_inside.slow_imports import import_libraries

with importing():
    import_libraries()

    # Importing this folder later would give its name to it, which is that of the decorator.
    import onnx_parity.exporter.lowering  # noqa: F401

    # Programs that were saved call the operators that these define.
    from onnx_parity.exporter import ops as ops
    from onnx_parity.exporter.kinds import quantized as quantized
    from onnx_parity.exporter.registry.lowerings import lowering as lowering

if TYPE_CHECKING:
    from onnx_parity.exporter.public import *  # noqa: F403
    from onnx_parity.exporter.public import __all__ as __all__

#: Modules that an export does not need. They are imported when they are first used.
_WHEN_USED = ("input_observer", "operators", "symbolic_helper", "testing", "verification")


if not TYPE_CHECKING:
    # A type checker would take every name for one of the package.
    def __getattr__(name: str) -> Any:
        if name in _WHEN_USED:
            return import_module(f"{__name__}.{name}")
        if name == "InputObserver":
            return import_module(f"{__name__}.input_observer").InputObserver
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        with importing():
            public = import_module(f"{__name__}.public")
        if name != "__all__" and name not in public.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(public, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module(f"{__name__}.public").__all__})
