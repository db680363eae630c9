"""Whether this thread is exporting a program, and every way in which a program or a library asks that.

Libraries take another path when they are exported. transformers, for example, drops an attention mask whose values are
all True, unless `torch.compiler.is_exporting()`, `torch.compiler.is_compiling()` or `torch.jit.is_tracing()` is True.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from onnx_parity.exporter.program_state.python_state import is_installed
from onnx_parity.exporter.torch_inside.frames import module_that_calls
from onnx_parity.exporter.torch_inside.patch import (
    FunctionAttribute,
    FunctionCode,
    OnImport,
    Patch,
    of_module,
)

__all__ = ["PATCHES", "exporting", "is_in_onnx_export"]

_exporting: ContextVar[bool] = ContextVar("exporting", default=False)


def is_in_onnx_export() -> bool:
    """Whether the caller runs because `onnx_parity.export` is recording it."""
    return _exporting.get()


def _yes(torchs: Callable[[], bool]) -> bool:
    return True


@contextmanager
def exporting() -> Iterator[None]:
    token = _exporting.set(True)
    try:
        yield
    finally:
        _exporting.reset(token)


# --- the ways of torch ------------------------------------------------------------------------------------------------


def _asker() -> str:
    """The package of the code that called a patched function: four frames up, below the three that lead to it."""
    return module_that_calls(4).partition(".")[0]


def _unless_torch_asks(torchs: Callable[[], bool]) -> bool:
    """True, except for torch, whose own code would prepare for `torch.export`."""
    return torchs() if _asker() == "torch" else True


def _if_a_library_asks(torchs: Callable[[], bool]) -> bool:
    """True for installed libraries. A user's own code takes the path that it was written with, not one for a tracer
    that cannot follow Python: sizes are not tensors here."""
    asker = _asker()
    return True if asker != "torch" and is_installed(asker) else torchs()


def _of_number(rounded: Callable[[Any], Any]) -> Callable[..., Any]:
    """Libraries round quotients of sizes as tensors where they are traced: `torch.ceil(height / 2)`. Here sizes are
    numbers."""

    def result(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        is_number = len(args) == 1 and not kwargs and isinstance(args[0], (int, float, torch.SymInt, torch.SymFloat))
        return rounded(args[0]) if is_number else torchs(*args, **kwargs)

    return result


PATCHES: tuple[Patch, ...] = (
    # Libraries call this one, and the program may import `torch.onnx` while it is exported for the first time.
    OnImport(
        "torch.onnx",
        FunctionCode(of_module("torch.onnx"), "is_in_onnx_export", _yes, here=is_in_onnx_export),
    ),
    FunctionAttribute(torch, "ceil", _of_number(math.ceil)),
    FunctionAttribute(torch, "floor", _of_number(math.floor)),
    FunctionCode(torch.compiler, "is_exporting", _unless_torch_asks),
    FunctionCode(torch.compiler, "is_compiling", _unless_torch_asks),
    FunctionCode(torch.jit, "is_tracing", _if_a_library_asks),
)
