"""transformers' own exporter, `transformers.exporters.OnnxExporter`, which patches torch and the models."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from onnx_parity.harness.axes import TRANSFORMERS
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.subjects.exporter_interface import Captured, Request

__all__ = ["TransformersExporter"]


class TransformersExporter:
    """It captures the program again at every opset, as an exported program."""

    name = TRANSFORMERS

    def missing(self) -> str:
        if find_spec("onnxscript") is None:
            return "onnxscript is not installed"
        found = find_spec("transformers")
        if found is None or found.origin is None:
            return "transformers is not installed"
        # Asking for the specification of a submodule would import transformers.
        return (
            "" if Path(found.origin).with_name("exporters").is_dir() else "transformers has no exporter in this release"
        )

    def refusal(self, error: Exception) -> str:
        from torch.onnx.errors import UnsupportedOperatorError

        return one_line(str(error)) if isinstance(error, UnsupportedOperatorError) else ""

    def capture(self, request: Request) -> Captured:
        return _Capture(request)


class _Capture:
    operators: tuple[str, ...] = ()

    def __init__(self, request: Request) -> None:
        self._request = request

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        if folder is not None:
            return self._write(opset, folder / "model.onnx", external_data="model.onnx.data")
        with tempfile.TemporaryDirectory(prefix="parity-") as aside:
            return self._write(opset, Path(aside) / "model.onnx", external_data=None).read_bytes()

    def _write(self, opset: int, path: Path, *, external_data: str | None) -> Path:
        import onnx_ir

        exporters: Any = import_module("transformers.exporters")
        request = self._request
        named = request.axes()
        # torch.onnx has this in place of a name too: it finds out which sizes are equal, and what they have to be.
        axes = {name: dict.fromkeys(named.get(name, ()), torch.export.Dim.DYNAMIC) for name in request.input_names}
        exported = exporters.OnnxExporter().export(
            _ByName(request.module, request.input_names),
            dict(zip(request.input_names, request.inputs, strict=True)),
            exporters.OnnxConfig(opset_version=opset, dynamic=bool(named), dynamic_shapes=axes if named else None),
        )
        for value in exported.program.graph.inputs:
            # An input that is an output too is named so.
            value.name = (value.name or "").removeprefix("input.")
        onnx_ir.save(exported.program, path, external_data=external_data)
        return path


class _ByName(torch.nn.Module):
    """A program that takes its inputs by their names, as this exporter requires."""

    def __init__(self, program: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.program = program
        self.names = names
        self.train(program.training)

    def forward(self, **inputs: torch.Tensor) -> Mapping[str, Any]:
        result: Mapping[str, Any] = self.program(*(inputs[name] for name in self.names))
        return result
