"""Imports the libraries that every export uses, without those of their modules that few exports use.

Those modules are imported when they are first used.
"""

from __future__ import annotations

import numpy  # noqa: F401  (its own `__getattr__` would import `numpy.typing` again and again)

from onnx_parity.exporter.torch_inside.imports import StandIn, standing_in

__all__ = ["import_libraries"]

_DEFERRED = (
    # onnx_ir._symbolic_shapes imports it at once.
    "sympy",
    "onnx_ir._symbolic_shapes",
    # Only needed for its messages, and to check, run or convert a model.
    StandIn("onnx", named_at_the_top_of="onnx_ir._convenience"),
    "onnx.external_data_helper",
    # Only needed for operators' signatures, for files, and for passes and graphs of others.
    "onnx_ir.schemas",
    "onnx_ir.external_data",
    StandIn("onnx_ir._io", "load", "save"),
    StandIn("onnx_ir._safetensors", "save_safetensors"),
    "onnx_ir.passes",
    "onnx_ir.tape",
    # Only needed by models that run on several devices.
    StandIn(
        "onnx_ir._multi_device",
        "IndexToDeviceGroupMapEntry",
        "ModelConfiguration",
        "NodeDeviceConfiguration",
        "ShardedDim",
        "ShardingSpec",
        "SimpleShardedDim",
    ),
    # They compute the limits of all dtypes when they are imported.
    StandIn("ml_dtypes._finfo", "finfo"),
    StandIn("ml_dtypes._iinfo", "iinfo"),
    # Only needed by annotations.
    "numpy.typing",
    "msgspec.inspect",
    "msgspec.toml",
    "msgspec.yaml",
)


def import_libraries() -> None:
    with standing_in(*_DEFERRED):
        import msgspec  # noqa: F401
        import onnx_ir.tensor_adapters  # noqa: F401
