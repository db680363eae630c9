"""Patches methods that ask how a tensor lies in memory, or that return a copy where it lies otherwise than wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.sizes.layouts import order_of
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller, module_that_calls
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, Patch
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = ["PATCHES"]

asks_for_its_caller(__file__)


def _is_of_program(tensor: Any) -> bool:
    """Whether a replacement is called by other code than this package's, with a tensor that is not the recorder's."""
    return not isinstance(tensor, FakeTensor) and not module_that_calls(3).startswith("onnx_parity.exporter.")


def _is_contiguous(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    result = torchs(self, *args, **kwargs)
    return recorder_here().layouts_asked.answer(self, result) if _is_of_program(self) else result


def _stride(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    asked: Any = args[0] if args else kwargs.get("input")
    if _is_of_program(asked):
        recorder_here().layouts_asked.ask(asked, exactly=True)
    return torchs(*args, **kwargs)


def _view(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if _is_of_program(self):
        recorder_here().layouts_asked.ask_where_caught(self)
    return torchs(self, *args, **kwargs)


def _may_copy(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    given: Any = args[0] if args else kwargs.get("input")
    result = torchs(*args, **kwargs)
    return recorder_here().layouts_asked.made(given, result) if _is_of_program(given) else result


def _ravel(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    given: Any = args[0] if args else kwargs.get("input")
    return recorder_here().layouts_asked.raveled(given) if _is_of_program(given) else torchs(*args, **kwargs)


def _contiguous(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    result = torchs(self, *args, **kwargs)
    if not _is_of_program(self):
        return result
    order = order_of(kwargs.get("memory_format", torch.contiguous_format), self.ndim)
    return recorder_here().layouts_asked.made_one(self, result, order)


def _to(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    result = torchs(self, *args, **kwargs)
    if "memory_format" not in kwargs or not _is_of_program(self):
        return result
    asked = recorder_here().layouts_asked
    asked.exactly = True
    return asked.made_one(self, result, is_guessed=True)


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(torch.Tensor, "is_contiguous", _is_contiguous),
    *[FunctionAttribute(torch.Tensor, name, _stride) for name in ("stride", "as_strided", "as_strided_scatter")],
    *[FunctionAttribute(torch, name, _stride) for name in ("as_strided", "as_strided_copy", "as_strided_scatter")],
    FunctionAttribute(torch.Tensor, "contiguous", _contiguous),
    FunctionAttribute(torch.Tensor, "to", _to),
    *[FunctionAttribute(torch.Tensor, name, _view) for name in ("view", "view_as")],
    *[FunctionAttribute(torch.Tensor, name, _may_copy) for name in ("reshape", "reshape_as", "flatten")],
    *[FunctionAttribute(torch, name, _may_copy) for name in ("reshape", "flatten")],
    *[FunctionAttribute(owner, "ravel", _ravel) for owner in (torch.Tensor, torch)],
)
