"""The exporter axis: what is put to the test. This project's own, and torch's two."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch.onnx import TrainingMode

from harness.axes import PARITY, TORCH_DYNAMO, TORCH_SCRIPT
from harness.wording import one_line

if TYPE_CHECKING:
    import exporter


@dataclass(frozen=True, slots=True)
class Request:
    """A program to export: at which inputs, under which names, with which symbolic axes."""

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]
    input_names: tuple[str, ...]
    dynamic: Mapping[str, Mapping[int, str]]


class Captured(Protocol):
    """A program that an exporter has taken in, and writes at any opset."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The ATen operators in it, by qualified name; empty where the exporter does not say."""

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        """The model; as a file beside its weights where a folder for them is given."""


class Exporter(Protocol):
    """A subject of the matrix."""

    name: str

    def missing(self) -> str:
        """Why it cannot run here. Empty when it can."""

    def refusal(self, error: Exception) -> str:
        """Why it refuses the program, in one line, where the error says so. Empty for any other error."""

    def capture(self, request: Request) -> Captured: ...


class Parity:
    """This project's exporter. A program is captured once for all opsets."""

    name = PARITY

    def missing(self) -> str:
        return ""

    def refusal(self, error: Exception) -> str:
        from exporter.errors import UnsupportedOperatorsError

        if not isinstance(error, UnsupportedOperatorsError):
            return ""
        since = {each: f" (from opset {each.since})" if each.since else "" for each in error.refusals}
        return "; ".join(dict.fromkeys(f"{each.operator}: {each.reason}{since[each]}" for each in error.refusals))

    def capture(self, request: Request) -> Captured:
        import exporter

        return _ParityCapture(
            exporter.capture_program(
                request.module,
                request.inputs,
                input_names=list(request.input_names),
                dynamic_axes=request.dynamic,
                training=request.module.training,
            )
        )


class _ParityCapture:
    def __init__(self, captured: exporter.Capture) -> None:
        self._captured = captured

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(self._captured.operators)

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        program = self._captured.lower(opset_version=opset)
        if folder is None:
            return program.serialize()
        path = folder / "model.onnx"
        program.save(path, external_data=True)
        return path


class Peer:
    """`torch.onnx.export`, either of its two exporters. It starts from the program at every opset."""

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
        request = self._request
        torch.onnx.export(
            request.module,
            request.inputs,
            path,
            input_names=list(request.input_names),
            dynamic_axes=None if self._dynamo else {name: dict(axes) for name, axes in request.dynamic.items()} or None,
            dynamic_shapes=self._dynamic_shapes() if self._dynamo else None,
            opset_version=opset,
            dynamo=self._dynamo,
            external_data=external_data,
            training=TrainingMode.TRAINING if request.module.training else TrainingMode.EVAL,
            verbose=False,
        )
        return path

    def _dynamic_shapes(self) -> tuple[object, ...] | None:
        """The symbolic axes in the form that torch.export wants: per argument, `*tensors` being one argument."""
        request = self._request
        if not request.dynamic:
            return None
        per_input = tuple(dict(request.dynamic.get(name, {})) for name in request.input_names)
        kinds = [parameter.kind for parameter in signature(request.module.forward).parameters.values()]
        return (per_input,) if Parameter.VAR_POSITIONAL in kinds else per_input


_ALL: tuple[Exporter, ...] = (Parity(), Peer(TORCH_DYNAMO, dynamo=True), Peer(TORCH_SCRIPT, dynamo=False))
EXPORTERS = {exporter.name: exporter for exporter in _ALL}
