"""Keeps torch from what only its compiler and its own errors need: the import of dynamo, compilation, stack traces.

The import takes a second of processor time, more than half of a process's first export of a small model. torch's fake
tensors import it for three reasons. The first is settings in `torch._dynamo.config`: that module is loaded alone. The
second is a check whether a dispatch mode has to be protected from compilation, which `FakeMode` leaves out. The third
is that torch excludes its reference kernels, which compute the results of `entr`, from compilation: that is patched.
Any other access to `torch._dynamo` imports it as usual, with its configuration already loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from traceback import StackSummary
from types import ModuleType
from typing import Any

import torch
import torch._compile
import torch._subclasses.fake_tensor
from torch.utils import _config_module

from onnx_parity.exporter.torch_inside.imports import imported, is_imported, load_alone
from onnx_parity.exporter.torch_inside.patch import Attribute, LogFilter, OnImport, Patch, of_module
from onnx_parity.exporter.torch_inside.this_thread import captures_here, records_here

__all__ = ["PATCHES", "SettingsReadLater", "load_configuration", "original_of_compiled", "uncompiled"]

_read_settings = _config_module.get_assignments_with_compile_ignored_comments
_PACKAGE = "torch._dynamo"
_STANCES = "torch._dynamo.eval_frame"

#: The attribute in which torch stores the version of a function that dynamo does not compile.
_ASKED = "__dynamo_disable"


# --- avoiding the import ----------------------------------------------------------------------------------------------


def _asking(torchs: Callable[..., Any]) -> Callable[..., Any]:
    """The `getattr` by which torch asks for the version of a function that dynamo does not compile. Until dynamo has
    been imported, it is the function itself, because nothing is compiled then."""

    def ask(value: Any, name: str, *default: Any) -> Any:
        found = torchs(value, name, *default)
        if found is None and name == _ASKED and captures_here() and not is_imported(_PACKAGE):
            return value
        return found

    return ask


#: Held while it is loaded, because another thread would take what is half loaded as it is.
_loading = threading.Lock()


class SettingsReadLater:
    """The settings that torch reads from the comments of a module: those that do not affect what is compiled.

    It reads them when the module is imported, in a twelfth of a process's first export, and needs them to compile.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __iter__(self) -> Iterator[str]:
        return iter(_read_settings(self._module))


def load_configuration() -> None:
    """Load the configuration of `torch._dynamo` without the rest of it, unless it has been loaded."""
    name = f"{_PACKAGE}.config"
    with _loading:
        if is_imported(_PACKAGE) or is_imported(name):
            return
        _config_module.get_assignments_with_compile_ignored_comments = SettingsReadLater  # type: ignore[assignment]
        try:
            path = Path(torch.__file__).parent / "_dynamo" / "config.py"
            # Another version of torch may have it elsewhere. All of dynamo is then imported as usual.
            if path.exists():
                load_alone(name, path)
            from torch._functorch import config  # noqa: F401  (fake tensors import it too)
        finally:
            _config_module.get_assignments_with_compile_ignored_comments = _read_settings


# --- avoiding compilation ---------------------------------------------------------------------------------------------


class _Stance:
    """torch's compilation stance. It is `force_eager` in a thread that records, so compiled parts run uncompiled."""

    def __init__(self, torchs: Any) -> None:
        self._torchs = torchs

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._dynamo.eval_frame.DynamoStance("force_eager") if records_here() else self._torchs, name)


def uncompiled() -> AbstractContextManager[Any]:
    """A context in which compiled parts run as they are written: to compile them for each dtype and size takes minutes.

    There are none as long as dynamo has not been imported, which takes a second.
    """
    return torch.compiler.set_stance("force_eager") if is_imported(_PACKAGE) else nullcontext()


def original_of_compiled(program: Callable[..., Any]) -> Callable[..., Any] | None:
    """The module that was compiled, of a compiled module; None for any other program."""
    compiled = getattr(imported(_STANCES), "OptimizedModule", ())
    return program._orig_mod if isinstance(program, compiled) else None


# --- avoiding stack traces --------------------------------------------------------------------------------------------


class _Traceback:
    """The module `traceback`, which finds no stack in a thread that captures.

    torch takes one when a mode of fake tensors is made, for the error that says that tensors of two modes were mixed.
    Taking it is a twentieth of the time that the export of a single operator takes.
    """

    def __init__(self, torchs: Any) -> None:
        self._torchs = torchs

    def extract_stack(self, *args: Any, **kwargs: Any) -> Any:
        return StackSummary() if captures_here() else self._torchs.extract_stack(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torchs, name)


PATCHES: tuple[Patch, ...] = (
    Attribute(torch._subclasses.fake_tensor, "traceback", _Traceback),
    # torch logs each failure with fake tensors with a traceback, although the error that is raised describes it.
    LogFilter("torch._subclasses.fake_tensor"),
    Attribute(torch._compile, "getattr", _asking),
    # Programs with compiled parts have imported dynamo before, or do so in the recording.
    OnImport(_STANCES, Attribute(of_module(_STANCES), "_stance", _Stance)),
)
