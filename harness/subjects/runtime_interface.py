"""The interface of runtimes, and the errors with which they report what they cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import Device


class NoKernelError(Exception):
    """The runtime has no implementation of an operator, or none for its types."""


class NoDeviceError(Exception):
    """The runtime cannot use the device, as it turned out when it tried. The message has the reason."""


class Session(Protocol):
    """A model that is ready to run."""

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]: ...


class Runtime(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def opsets(self) -> tuple[int, ...]: ...

    def missing(self, device: Device) -> str:
        """The reason why it cannot run on this device here; empty if it can."""

    def load(self, model: bytes | Path, device: Device) -> Session: ...
