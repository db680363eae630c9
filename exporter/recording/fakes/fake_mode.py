"""torch's fake tensors, created faster and without the import of `torch._dynamo`.

The results of many operators are created by `torch.empty`. With dynamic sizes torch takes 0.3 ms of processor time for
each, to compute the strides. Here, they are created from tensors of the same sizes that were kept.

torch's fake tensors import `torch._dynamo`, although no capture uses it. The import takes a second of processor time,
more than half of a process's first export of a small model. torch imports it for four reasons, and two of them are
avoided here. The first is settings in `torch._dynamo.config`: that module is loaded alone. The second is a check
whether a dispatch mode has to be protected from compilation: nothing is compiled here. The other two are patched while
a program is captured, in `patches/dynamo.py`. Any other access to `torch._dynamo` imports it as usual, with its
configuration already loaded.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.startup.deferred_imports import StandIn
from onnx_parity.exporter.torch_inside.outside_of_modes import outside_of_modes

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["Fakes", "expressions", "outside_of_fake_modes", "plain_tensors"]

_F = TypeVar("_F", bound=Callable[..., Any])

_PACKAGE = "torch._dynamo"
#: Held while it is loaded, because another thread would take what is half loaded as it is.
_loading = threading.Lock()

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


class Fakes(FakeTensorMode):
    """The fake tensors of one capture."""

    def __init__(self, symbols: Symbols | None) -> None:
        with _loading:
            _load_configuration()
        super().__init__(shape_env=cast("Any", symbols))
        self.symbols = symbols
        # torch's cache makes nodes of its own for dynamic sizes. Results are kept by `ResultMemo`.
        self.cache_enabled = self.cache_enabled and symbols is None
        self._shapes = _static_shapes if symbols is None else {}
        #: The attributes that torch gives each fake tensor of a device.
        self._attributes: dict[torch.device, dict[str, Any]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

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
                shape = self.contiguous(kind, sizes) if strides is None else self._strided(kind, sizes, strides)
                return self.tensor(shape, _CPU)
        return self.dispatch(func, types, args, kwargs)

    def tensor(self, shape: torch.Tensor, device: torch.device) -> FakeTensor:
        """A fake tensor with the dtype, the shape and the strides of a tensor without data.

        It does what `FakeTensor.__new__` does, which takes most of its time to set attributes: they only differ between
        devices, and are copied from the first tensor of the device.
        """
        attributes = self._attributes.get(device)
        if attributes is None:
            made = FakeTensor(self, shape, device)
            self._attributes[device] = vars(made).copy()
            return made
        made = torch.Tensor._make_subclass(
            FakeTensor, shape, shape.requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
        if self._allow_unsafe_data_ptr_access:
            torch._C._set_warn_deprecated_on_mutable_data_ptr(made)
        else:
            torch._C._set_throw_on_mutable_data_ptr(made)
        vars(made).update(attributes)
        return made

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

    def _strided(self, dtype: torch.dtype, shape: Sequence[Size], strides: Sequence[Size]) -> torch.Tensor:
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
    with torch.inference_mode(False), temporarily_clear_interpreter_stack():
        yield


def outside_of_fake_modes(function: _F) -> _F:
    """Make a function create real tensors, even if it is called within a fake tensor mode of the user."""

    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(mode, FakeTensorMode) for mode in _get_current_dispatch_mode_stack()):
            with outside_of_modes():
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
