"""Fake tensors without dynamo: torch's own, which import all of `torch._dynamo`, though no capture here uses it.

That takes a second of processor time, most of a process's first export of a small model. Torch asks for it four times:
for a handful of settings in `torch._dynamo.config`, which is loaded alone here; to keep compilation out of every
dispatch mode, where nothing is ever compiled; to keep it out of its reference kernels, which find the results of `abs`
and `gt`; and to tell its trace, which nobody reads, where each symbol was made. Whatever else is asked of
`torch._dynamo` imports it as always, and it finds its configuration in place.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch._refs.fft
import torch._refs.linalg
import torch._refs.nn.functional
import torch._refs.special
from torch._compile import _disable_dynamo
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from onnx_parity.exporter.startup.deferred_imports import StandIn

if TYPE_CHECKING:
    from onnx_parity.exporter.capture.sizes.shape_env import HintedShapeEnv

__all__ = ["Fakes", "outside_of_fake_modes", "without_dynamo"]

_F = TypeVar("_F", bound=Callable[..., Any])

_PACKAGE = "torch._dynamo"

#: Where torch logs what becomes of a program, symbol by symbol, if `TORCH_TRACE` names a folder.
_TRACE = logging.getLogger("torch.__trace")

#: What torch keeps in a function once it has asked dynamo to be kept out of it.
_ASKED = "__dynamo_disable"

_REFERENCES = (torch._refs, torch._refs.fft, torch._refs.linalg, torch._refs.nn.functional, torch._refs.special)


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
    """A function that makes real tensors, though it may be called where a program's own tensors are fake."""

    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(mode, FakeTensorMode) for mode in _get_current_dispatch_mode_stack()):
            with _disable_current_modes():
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    return cast("_F", outside)


def _load_configuration() -> None:
    """Load the configuration of `torch._dynamo` alone, unless it is there already."""
    name = f"{_PACKAGE}.config"
    if _PACKAGE in sys.modules or name in sys.modules:
        return
    path = Path(torch.__file__).parent / "_dynamo" / "config.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        return  # A torch that keeps it elsewhere imports as it always did.
    config = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(config)
    except BaseException:
        del sys.modules[name]
        raise
    torch._dynamo = StandIn(_PACKAGE)
    torch._dynamo.config = sys.modules[name]


class _KeptOutOnceImported:
    """A function as it is, until dynamo is there to be kept out of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._kept_out: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._kept_out is None:
            disable = getattr(sys.modules.get(_PACKAGE), "disable", None)
            if disable is None:
                return self._function(*args, **kwargs)
            self._kept_out = disable(self._function, wrapping=False)
        return self._kept_out(*args, **kwargs)


class _Meanwhile:
    """What is otherwise while a capture lasts; where several do at once, the last one puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures = 0
        self._spared = False
        self._handlers: list[logging.Handler] = []

    @contextmanager
    def without_dynamo(self) -> Iterator[None]:
        kept = _kept_from_dynamo() if _PACKAGE not in sys.modules else []
        with self._lock:
            self._captures += 1
            if self._captures == 1:
                self._handlers, _TRACE.handlers = _TRACE.handlers, [*filter(_was_asked_for, _TRACE.handlers)]
            if self._captures == 1 and kept:
                self._spared = True
                for attributes, spared in kept:
                    attributes.setdefault(_ASKED, spared)
        try:
            yield
        finally:
            with self._lock:
                self._captures -= 1
                if self._captures == 0:
                    _TRACE.handlers = self._handlers
                if self._captures == 0 and self._spared:
                    self._spared = False
                    for attributes, spared in _kept_from_dynamo():
                        if attributes.get(_ASKED) is spared:
                            del attributes[_ASKED]


without_dynamo = _Meanwhile().without_dynamo


def _was_asked_for(handler: logging.Handler) -> bool:
    """Whether torch's trace goes to a file. Not so torch's own handler without one, nor those that pytest puts on
    every logger: to tell them where a symbol is made takes a millisecond.
    """
    return bool(getattr(handler, "root_dir", None))


@functools.cache
def _kept_from_dynamo() -> list[tuple[dict[str, Any], _KeptOutOnceImported]]:
    """The attributes of each function that torch's `_disable_dynamo` has wrapped, and what spares it that."""
    marked = _disable_dynamo(_load_configuration).__code__
    found = {}
    for module in _REFERENCES:
        for reference in vars(module).values():
            # From wrapper to wrapped. (Torch's `__wrapped__` leave some out.)
            while isinstance(reference, FunctionType) and "fn" in reference.__code__.co_freevars:
                cells = zip(reference.__code__.co_freevars, reference.__closure__ or (), strict=True)
                wrapped = dict(cells)["fn"].cell_contents
                if reference.__code__ is marked:
                    found[id(wrapped)] = wrapped.__dict__, _KeptOutOnceImported(wrapped)
                reference = wrapped
    return list(found.values())
