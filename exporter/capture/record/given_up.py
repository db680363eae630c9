"""Why a recording is given up: `trace` makes another one, which allows what the program does."""

from __future__ import annotations

from onnx_parity.exporter.capture.graph.graph import Origin
from onnx_parity.exporter.errors import CaptureError

__all__ = ["NeedsSymbols", "NeedsViews", "OwnTensorWritten", "own_tensor_written"]


class OwnTensorWritten(CaptureError):
    """The program writes to a tensor that it owns, or to a tensor that was computed from such tensors alone."""


class NeedsSymbols(CaptureError):
    """The program has data-dependent sizes, but is being recorded without symbols."""


class NeedsViews(CaptureError):
    """The program calls `set_`, but is being recorded with its inputs themselves and not with views of them."""


def own_tensor_written(name: str, origin: Origin) -> OwnTensorWritten:
    what = f"{name!r}, which" if name else "a tensor that"
    return OwnTensorWritten(
        f"the program writes in place{origin.placed} to {what} is neither created in it nor an input or buffer. "
        "Register that tensor with register_buffer, or write to a copy of it."
    )
