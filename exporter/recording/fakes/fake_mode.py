"""torch's fake tensors, created faster and without the import of `torch._dynamo`.

The results of many operators are created by `torch.empty`. With dynamic sizes torch takes 0.3 ms of processor time for
each, to compute the strides. Here, they are created from tensors of the same sizes that were kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.dynamo import load_configuration
from onnx_parity.exporter.torch_inside.fake_tensors import FakeMode, FakeTensorMode, in_kernel_invocation_manager
from onnx_parity.exporter.torch_inside.modes import (
    dispatch_modes,
    outside_of_inference_mode,
    outside_of_modes,
    outside_of_transforms,
)

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["Fakes", "expressions", "outside_of_fake_modes", "plain_tensors"]

_F = TypeVar("_F", bound=Callable[..., Any])

_CPU, _META = torch.device("cpu"), torch.device("meta")
_EMPTY, _EMPTY_STRIDED = torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default
#: Options of `torch.empty` with the values for which its result is contiguous.
_ORDINARY = {
    "layout": (None, torch.strided),
    "memory_format": (None, torch.contiguous_format),
    "pin_memory": (None, False),
}
#: At this number of shapes those of static sizes are dropped, for processes that export thousands of programs.
_MOST = 20_000

#: Contiguous tensors without data, by dtype and static sizes, which all programs of the process share.
_static_shapes: dict[Any, torch.Tensor] = {}


class Fakes(FakeMode):
    """The fake tensors of one capture."""

    def __init__(self, symbols: Symbols | None) -> None:
        load_configuration()
        super().__init__(symbols)
        self.symbols = symbols
        # torch's cache makes nodes of its own for dynamic sizes. Results are kept by `ResultMemo`.
        self.cache_enabled = self.cache_enabled and symbols is None
        self._shapes = _static_shapes if symbols is None else {}

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] = {}
    ) -> object:
        if (func is _EMPTY or func is _EMPTY_STRIDED) and not self.in_kernel_invocation:
            sizes = cast("Sequence[Size]", args[0])
            options = dict(kwargs)
            dtype, device = options.pop("dtype", None), options.pop("device", None)
            is_ordinary = all(value in _ORDINARY[name] for name, value in options.items())
            if is_ordinary and device in (None, _CPU):
                kind = cast("torch.dtype", dtype or torch.get_default_dtype())
                strides = cast("Sequence[Size]", args[1]) if func is _EMPTY_STRIDED else None
                shape = self.contiguous(kind, sizes) if strides is None else self.strided(kind, sizes, strides)
                return self.tensor(shape, _CPU)
        return self.dispatch(func, types, args, kwargs)

    def contiguous(self, dtype: torch.dtype, shape: Sequence[Size]) -> torch.Tensor:
        """A contiguous tensor without data, from which fake tensors are made. It is shared."""
        key = (dtype, expressions(shape))
        known = self._shapes.get(key)
        if known is None:
            with outside_of_modes(), in_kernel_invocation_manager(self), plain_tensors():
                known = torch.empty(shape, dtype=dtype, device=_META)
            if len(self._shapes) >= _MOST:
                self._shapes.clear()
            self._shapes[key] = known
        return known

    def strided(self, dtype: torch.dtype, shape: Sequence[Size], strides: Sequence[Size]) -> torch.Tensor:
        """A tensor without data in memory of its own."""
        with outside_of_modes(), in_kernel_invocation_manager(self), plain_tensors():
            return torch.empty_strided(shape, strides, dtype=dtype, device=_META)

    @contextmanager
    def separate(self) -> Iterator[None]:
        """A context in which the kept tensors are not those that are known outside."""
        outer, self._shapes = self._shapes, {}
        try:
            yield
        finally:
            self._shapes = outer

    def release(self) -> None:
        """Drop the kept tensors of this program alone, which hold its sizes."""
        self._shapes = {}


def expressions(sizes: Sequence[Size]) -> tuple[Any, ...]:
    """The sizes, with expressions for those that are dynamic."""
    return tuple([size.node.expr if isinstance(size, torch.SymInt) else size for size in sizes])


@contextmanager
def plain_tensors() -> Iterator[None]:
    """Within, tensors are created that can be used in other recordings.

    Those of inference mode can only be used in it. And `functionalize` would wrap them: torch calls some operators,
    such as the `detach` of `zeros_like`, while its interpreter is active.
    """
    with outside_of_inference_mode(), outside_of_transforms():
        yield


def outside_of_fake_modes(function: _F) -> _F:
    """Make a function create real tensors, even if it is called within a fake tensor mode of the user."""

    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(mode, FakeTensorMode) for mode in dispatch_modes()):
            with outside_of_modes():
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    return cast("_F", outside)
