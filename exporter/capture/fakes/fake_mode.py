"""torch's fake tensors without the import of `torch._dynamo`, which they cause although no capture uses it.

The import takes a second of processor time, more than half of a process's first export of a small model. torch imports
it for four reasons, and two of them are avoided here. The first is settings in `torch._dynamo.config`: that module is
loaded alone. The second is a check whether a dispatch mode has to be protected from compilation: nothing is compiled
here. The other two are patched while a program is captured, in `patches/dynamo.py`. Any other access to
`torch._dynamo` imports it as usual, with its configuration already loaded.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from onnx_parity.exporter.startup.deferred_imports import StandIn

if TYPE_CHECKING:
    from onnx_parity.exporter.capture.sizes.shape_env import HintedShapeEnv

__all__ = ["Fakes", "outside_of_fake_modes"]

_F = TypeVar("_F", bound=Callable[..., Any])

_PACKAGE = "torch._dynamo"


class Fakes(FakeTensorMode):
    """The fake tensors of one capture."""

    def __init__(self, symbols: HintedShapeEnv | None) -> None:
        _load_configuration()
        super().__init__(shape_env=symbols)
        self.symbols = symbols

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] = {}
    ) -> object:
        return self.dispatch(func, types, args, kwargs)


def outside_of_fake_modes(function: _F) -> _F:
    """Make a function create real tensors, even if it is called within a fake tensor mode of the user."""

    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(mode, FakeTensorMode) for mode in _get_current_dispatch_mode_stack()):
            with _disable_current_modes():
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    return cast("_F", outside)


def _load_configuration() -> None:
    """Load the configuration of `torch._dynamo` without the rest of it, unless it has been loaded."""
    name = f"{_PACKAGE}.config"
    if _PACKAGE in sys.modules or name in sys.modules:
        return
    path = Path(torch.__file__).parent / "_dynamo" / "config.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        return  # This version of torch has the configuration elsewhere, so all of dynamo is imported as usual.
    config = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(config)
    except BaseException:
        del sys.modules[name]
        raise
    torch._dynamo = StandIn(_PACKAGE)
    torch._dynamo.config = sys.modules[name]
