"""Runtimes as plug-ins: any module with the ONNX backend interface, such as `onnxruntime.backend`.

    pytest --runtimes backend:onnxruntime.backend

The interface is that of `onnx.backend.base`: `prepare(model, device)` returns an object whose `run(inputs)` takes a
list of arrays in the order of the graph's inputs, and `supports_device(device)` returns whether it can use a device.
If the module cannot be imported, the runtime is missing, with the reason.
"""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import onnx

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import BACKEND, OPSETS, Device, Dtype
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.subjects.delivered import input_names, proto_of
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, Session


class BackendRep(Protocol):
    """A model that a backend has loaded."""

    def run(self, inputs: list[Fed]) -> Sequence[object]: ...


class BackendModule(Protocol):
    """The part of the interface `onnx.backend.base.Backend` that the harness uses."""

    def prepare(self, model: onnx.ModelProto, device: str) -> BackendRep: ...

    def supports_device(self, device: str) -> bool: ...


class NoBackendError(Exception):
    """The module cannot be used as a backend. The message has the reason."""


@dataclass(frozen=True)
class Backend:
    """A module with the ONNX backend interface."""

    name: str
    #: All opsets, because a backend reports for each model whether it supports its opset.
    opsets: tuple[int, ...] = OPSETS
    dtypes: frozenset[Dtype] = frozenset(Dtype)
    packages: tuple[str, ...] = ()

    def missing(self, device: Device) -> str:
        try:
            module = _load_module(self.name.removeprefix(BACKEND))
            return "" if module.supports_device(device.upper()) else f"{self.name} does not support {device.upper()}"
        except NoBackendError as error:
            return str(error)

    def load(self, model: bytes | Path, device: Device) -> Session:
        proto = proto_of(model)
        module = _load_module(self.name.removeprefix(BACKEND))
        try:
            return _Session(module.prepare(proto, device.upper()), input_names(proto))
        except (NotImplementedError, unittest.SkipTest) as error:
            raise NoKernelError(one_line(str(error))) from error


@dataclass(frozen=True)
class _Session:
    rep: BackendRep
    inputs: tuple[str, ...]

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        try:
            outputs = self.rep.run([feeds[name] for name in self.inputs])
        except (NotImplementedError, unittest.SkipTest) as error:
            raise NoKernelError(one_line(str(error))) from error
        return [_array(output) for output in outputs]


def _array(output: Any) -> object:
    """An output as a numpy array. A backend may return its own arrays, which can be converted to numpy's."""
    return np.asarray(output) if hasattr(output, "__array__") else output


@cache
def _load_module(name: str) -> BackendModule:
    try:
        module = import_module(name)
    except Exception as error:
        # If a package lacks another one, its error only names the other one.
        raise NoBackendError(f"{name} cannot be imported: {error_line(error)}") from error
    for function in ("prepare", "supports_device"):
        if not callable(getattr(module, function, None)):
            raise NoBackendError(f"{name} is not an ONNX backend: it has no {function}()")
    return cast("BackendModule", module)
