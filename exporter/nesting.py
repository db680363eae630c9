"""Refuses modules, arguments and results that are nested too deeply for Python's recursion limit."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from onnx_parity.exporter.errors import CaptureError

__all__ = ["nested_too_deeply", "refusing_deep_nesting"]

_F = TypeVar("_F", bound=Callable[..., Any])


def nested_too_deeply(placed: str = "") -> CaptureError:
    return CaptureError(
        f"the program, its arguments or its modules are nested too deeply{placed}: Python allows "
        f"{sys.getrecursionlimit():,} calls within each other. Nest them less deeply, or allow more with "
        "sys.setrecursionlimit"
    )


def refusing_deep_nesting(function: _F) -> _F:
    """A decorator that raises a `CaptureError` instead of Python's `RecursionError`."""

    @functools.wraps(function)
    def refusing(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise nested_too_deeply() from None

    return cast("_F", refusing)
