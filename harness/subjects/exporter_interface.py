"""What an exporter is, what it is asked for, and what it gives: `runtime_interface.py` of the exporters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Protocol

import torch

from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.harness.axes import Capture
from onnx_parity.harness.case import DynamicAxes
from onnx_parity.harness.cases.scripted import scripted
from onnx_parity.harness.one_line import one_line

__all__ = ["Captured", "Exporter", "NoSuchFormError", "Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A program to export, with its inputs, names and symbolic axes."""

    module: torch.nn.Module
    inputs: tuple[Given, ...]
    input_names: tuple[str, ...]
    dynamic: DynamicAxes
    way_in: Capture = Capture.TRACE
    #: Whether this exporter refuses what it warns of otherwise: values and branches that become those of the example.
    strict: bool = False

    def program(self) -> Any:
        """The module, or the scripted or exported program that torch makes of it."""
        if self.way_in is Capture.TRACE:
            return self.module
        if len(self.axes()) < len(self.dynamic):
            raise NoSuchFormError(f"a {self.way_in} of it has no list of any length, and no argument that may be None")
        try:
            if self.way_in is Capture.SCRIPT:
                return scripted(self.module)
            return torch.export.export(self.module, self.inputs, dynamic_shapes=self.dynamic_shapes(torch.export.Dim))
        except Exception as error:  # torch's refusals have no common base class.
            raise NoSuchFormError(f"torch cannot make a {self.way_in} of it: {one_line(str(error))}") from error

    def axes(self) -> dict[str, dict[int, str]]:
        """The symbolic axes of tensors. torch.onnx has no arguments for lists and optional inputs."""
        return {name: dict(axes) for name, axes in self.dynamic.items() if isinstance(axes, Mapping)}

    def dynamic_shapes(self, dimension: Callable[[str], object] = str) -> tuple[object, ...] | None:
        """The symbolic axes in the form of torch.export: by argument, where `*tensors` is one argument.

        torch.onnx accepts names of dimensions. torch.export itself only accepts dimensions, one for each name.
        """
        named = self.axes()
        if not named:
            return None
        symbols = {symbol for axes in named.values() for symbol in axes.values()}
        dimensions = {symbol: dimension(symbol) for symbol in sorted(symbols)}
        per_input = tuple(
            {axis: dimensions[symbol] for axis, symbol in named.get(name, {}).items()} for name in self.input_names
        )
        kinds = [parameter.kind for parameter in signature(self.module.forward).parameters.values()]
        return (per_input,) if Parameter.VAR_POSITIONAL in kinds else per_input


class NoSuchFormError(Exception):
    """torch cannot script or export the case, so it is not an error of an exporter."""


class Captured(Protocol):
    """A program that an exporter has captured, and can write at any opset."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The qualified names of its ATen operators; empty if the exporter does not provide them."""

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        """The model as bytes, or, if a folder is given, as a file with its weights beside it."""


class Exporter(Protocol):
    """An exporter, as one of the points of an axis of the matrix."""

    @property
    def name(self) -> str: ...

    def missing(self) -> str:
        """The reason why it cannot run here; empty if it can."""

    def refusal(self, error: Exception) -> str:
        """For an error by which it refuses a program, the reason in one line; empty for any other error."""

    def capture(self, request: Request) -> Captured: ...
