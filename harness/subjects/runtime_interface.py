"""The interface of runtimes, and the errors with which they report what they cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import Device, Dtype


class NoKernelError(Exception):
    """The runtime has no implementation of an operator, or none for its types."""


class NotUsableError(Exception):
    """The runtime, or its device, cannot be used, as it turned out when it tried. The message has the reason."""


class Session(Protocol):
    """A model that is ready to run."""

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]: ...


class Runtime(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def opsets(self) -> tuple[int, ...]:
        """The opsets that it claims to run."""

    @property
    def dtypes(self) -> frozenset[Dtype]:
        """The dtypes that it claims to run. It may still have no kernel of an operator for one of them."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The distributions that it consists of, whose versions are recorded with a run."""

    def missing(self, device: Device) -> str:
        """The reason why it cannot run on this device here; empty if it can."""

    def load(self, model: bytes | Path, device: Device) -> Session: ...
