"""What the caller chose about the recording of a program, read once; `export` describes each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.checks import check_switches
from onnx_parity.exporter.request.dynamic_axes import DynamicAxes
from onnx_parity.exporter.request.dynamic_shapes import DynamicShapes

__all__ = ["RecordOptions"]


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is recorded. `export` describes each of them."""

    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    dynamic_axes: DynamicAxes | None = None
    dynamic_shapes: DynamicShapes | None = None
    #: Lowerings by operator; each is a function whose first parameter is `g`, or a function of ONNX.
    custom_translation_table: Mapping[Any, Any] | None = None
    training: object = False
    strict: bool = False
    assume: Sequence[str] = ()
    return_written: bool = False
    allow_ignored_inputs: bool = False
    #: Whether a name in `dynamic_axes` that nothing has is an error: `torch.onnx.export` only warns of it.
    refuse_unknown_axes: bool = False
    retain_param_name: bool = True
    #: Whether both sides of a branch have to return the same shapes, as ONNX's If requires before opset 11.
    same_shapes: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.assume, str) or not all(isinstance(each, str) for each in self.assume):
            raise ArgumentError(f"assume is {self.assume!r}: give a list of conditions, ['height % 8 == 0']")
        check_switches(
            _retain_param_name=self.retain_param_name,
            strict=self.strict,
            return_written=self.return_written,
            allow_ignored_inputs=self.allow_ignored_inputs,
        )
