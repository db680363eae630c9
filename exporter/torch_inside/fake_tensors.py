"""torch's fake tensors, which have a dtype, a shape and a device but no data: their modes, errors and kernels."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, cast

import torch
from torch import _refs as reference_kernels
from torch._library import fake_impl as contexts_of_fake_kernels
from torch._subclasses import fake_impls as fake_kernels
from torch._subclasses.fake_impls import _is_tensor_constructor as is_constructor
from torch._subclasses.fake_impls import op_implementations_checks as own_kernels
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
    UnsupportedOperatorException,
    in_kernel_invocation_manager,
)

from onnx_parity.exporter.torch_inside.modes import TorchDispatchMode, Uncompiled

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeMode", "FakeTensor", "FakeTensorMode",
    "UnsupportedOperatorException", "computes_itself", "contexts_of_fake_kernels", "fake_kernels",
    "in_kernel_invocation_manager", "is_constructor", "own_kernels",
    "reference_kernels",
]  # fmt: skip

#: The attributes that torch gives each fake tensor of a device, but for its mode.
_attributes: dict[torch.device, dict[str, object]] = {}
#: Attributes of a mode of torch that are its own.
_OWN = frozenset({*vars(TorchDispatchMode()), "enter_stack", "fake_tensor_converter", "shape_env", "static_shapes"})
#: What the class of a tensor has that leaves operators to torch.
_LEFT_TO_TORCH = torch.nn.Parameter.__torch_dispatch__


def computes_itself(cls: type) -> bool:
    """Whether operators on tensors of this class, which hold other tensors, are computed by the class."""
    if cls is FakeTensor or cls is torch.Tensor or cls is torch.nn.Parameter:
        return False
    return getattr(cls, "__torch_dispatch__", _LEFT_TO_TORCH) is not _LEFT_TO_TORCH and issubclass(cls, torch.Tensor)


class FakeMode(Uncompiled, FakeTensorMode):
    """A mode of fake tensors that makes them faster, and does not import torch's compiler."""

    #: What torch sets in each of its modes from its configuration, as it was for the first of the process. To read it
    #: takes 0.1 ms for each.
    _settings: ClassVar[dict[str, object]] = {}

    def __init__(self, shape_env: object) -> None:
        settings = self._settings
        if not settings:
            made = FakeTensorMode()
            settings.update({name: value for name, value in vars(made).items() if name not in _OWN})
        TorchDispatchMode.__init__(self)
        vars(self).update(settings)
        self.enter_stack = []
        self.shape_env = cast("torch.fx.experimental.symbolic_shapes.ShapeEnv", shape_env)
        self.static_shapes = shape_env is None

    @cached_property
    def fake_tensor_converter(self) -> FakeTensorConverter:  # type: ignore[override]
        """What makes fake tensors of real ones, which few programs need."""
        return FakeTensorConverter(copy_data=False, export=False)

    def tensor(self, shape: torch.Tensor, device: torch.device) -> FakeTensor:
        """A fake tensor with the dtype, the shape and the strides of a tensor without data.

        It does what `FakeTensor.__new__` does, which takes most of its time to set attributes: they only differ between
        devices, and are copied from the first tensor of the device.
        """
        attributes = _attributes.get(device)
        if attributes is None:
            made = FakeTensor(self, shape, device)
            _attributes[device] = vars(made).copy()
            del _attributes[device]["fake_mode"]
            return made
        made = torch.Tensor._make_subclass(
            FakeTensor, shape, shape.requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
        if self._allow_unsafe_data_ptr_access:
            torch._C._set_warn_deprecated_on_mutable_data_ptr(made)
        else:
            torch._C._set_throw_on_mutable_data_ptr(made)
        given = vars(made)
        given.update(attributes)
        given["fake_mode"] = self
        return made
