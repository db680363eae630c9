"""The exporters that can be tested: this project's own, torch's two, transformers', and any `module:function`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import torch

from onnx_parity.harness.axes import PARITY, TORCH_DYNAMO, TORCH_SCRIPT, Capture
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.record import AT_A_LATER_OPSET
from onnx_parity.harness.subjects.exporter_interface import Captured, Exporter, Request
from onnx_parity.harness.subjects.transformers_exporter import TransformersExporter

if TYPE_CHECKING:
    import onnx_parity


class Parity:
    """This project's exporter. A program is captured once for all opsets."""

    name = PARITY

    def missing(self) -> str:
        return ""

    def refusal(self, error: Exception) -> str:
        from onnx_parity.exporter.errors import UnsupportedOperatorsError

        if not isinstance(error, UnsupportedOperatorsError):
            return ""
        since = {each: f" {AT_A_LATER_OPSET} {each.since})" if each.since else "" for each in error.refusals}
        return "; ".join(dict.fromkeys(f"{each.operator}: {each.reason}{since[each]}" for each in error.refusals))

    def capture(self, request: Request) -> ParityCapture:
        import onnx_parity

        return ParityCapture(
            onnx_parity.capture_program(
                request.program(),
                request.inputs,
                input_names=list(request.input_names),
                dynamic_axes=request.dynamic,
                strict=request.strict,
                # The mode of an exported program is fixed.
                training=request.module.training and request.way_in is not Capture.EXPORTED_PROGRAM,
            )
        )


class ParityCapture:
    """A program that this project's exporter has recorded."""

    def __init__(self, recorded: onnx_parity.Capture) -> None:
        self.recorded = recorded

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(self.recorded.operators)

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        program = self.recorded.lower(opset_version=opset)
        if folder is None:
            return program.serialize()
        path = folder / "model.onnx"
        program.save(path, external_data=True)
        return path


class Peer:
    """`torch.onnx.export`, with either of its two exporters. It captures the program again at every opset."""

    def __init__(self, name: str, *, dynamo: bool) -> None:
        self.name = name
        self._dynamo = dynamo

    def missing(self) -> str:
        return "onnxscript is not installed" if self._dynamo and find_spec("onnxscript") is None else ""

    def refusal(self, error: Exception) -> str:
        from torch.onnx.errors import SymbolicValueError, UnsupportedOperatorError

        return one_line(str(error)) if isinstance(error, SymbolicValueError | UnsupportedOperatorError) else ""

    def capture(self, request: Request) -> Captured:
        return _PeerCapture(request, dynamo=self._dynamo)


class _PeerCapture:
    operators: tuple[str, ...] = ()

    def __init__(self, request: Request, *, dynamo: bool) -> None:
        self._request = request
        self._dynamo = dynamo

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        if folder is not None:
            return self._write(opset, folder / "model.onnx", external_data=True)
        with tempfile.TemporaryDirectory(prefix="parity-") as aside:
            return self._write(opset, Path(aside) / "model.onnx", external_data=False).read_bytes()

    def _write(self, opset: int, path: Path, *, external_data: bool) -> Path:
        from torch.onnx import TrainingMode

        request = self._request
        torch.onnx.export(
            request.program(),
            request.inputs,
            path,
            input_names=list(request.input_names),
            dynamic_axes=None if self._dynamo else request.axes() or None,
            dynamic_shapes=request.dynamic_shapes() if self._dynamo else None,
            opset_version=opset,
            dynamo=self._dynamo,
            external_data=external_data,
            training=TrainingMode.TRAINING if request.module.training else TrainingMode.EVAL,
            verbose=False,
        )
        return path


@dataclass(frozen=True)
class FunctionExporter:
    """Any function `module:function` with the interface of `torch.onnx.export`.

    It is called as `function(program, inputs, path, input_names=..., dynamic_axes=..., opset_version=...)` and writes
    the model to the path. It refuses a program by raising `NotImplementedError`.
    """

    name: str

    def missing(self) -> str:
        try:
            _function(self.name)
        except NoFunctionError as error:
            return str(error)
        return ""

    def refusal(self, error: Exception) -> str:
        return one_line(str(error)) or "it is not implemented" if isinstance(error, NotImplementedError) else ""

    def capture(self, request: Request) -> Captured:
        return _FunctionCapture(_function(self.name), request)


@dataclass(frozen=True)
class _FunctionCapture:
    function: Callable[..., object]
    request: Request
    operators: tuple[str, ...] = ()

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        if folder is not None:
            return self._write(opset, folder / "model.onnx")
        with tempfile.TemporaryDirectory(prefix="parity-") as aside:
            path = self._write(opset, Path(aside) / "model.onnx")
            # Files beside the model will be removed with the folder, so they are loaded into it.
            return onnx.load(path).SerializeToString() if len(os.listdir(aside)) > 1 else path.read_bytes()

    def _write(self, opset: int, path: Path) -> Path:
        request = self.request
        self.function(
            request.program(),
            request.inputs,
            path,
            input_names=list(request.input_names),
            dynamic_axes=request.axes() or None,
            opset_version=opset,
        )
        return path


class NoFunctionError(Exception):
    """`module:function` does not name an available function. The message has the reason."""


@cache
def _function(name: str) -> Callable[..., object]:
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
    except Exception as error:
        raise NoFunctionError(f"{module} cannot be imported: {error_line(error)}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise NoFunctionError(f"{module} has no {path}")
        found = getattr(found, part)
    if not callable(found):
        raise NoFunctionError(f"{name} is not a function but {type(found).__name__}")
    function: Callable[..., object] = found
    return function


class Exporters(dict[str, Exporter]):
    """Exporters by name: those of the harness, and each `module:function` once it has been looked up."""

    def __missing__(self, name: str) -> Exporter:
        if ":" not in name:
            raise KeyError(name)
        return self.setdefault(name, FunctionExporter(name))


_ALL: tuple[Exporter, ...] = (
    Parity(), Peer(TORCH_DYNAMO, dynamo=True), Peer(TORCH_SCRIPT, dynamo=False), TransformersExporter()
)  # fmt: skip
EXPORTERS = Exporters((exporter.name, exporter) for exporter in _ALL)
