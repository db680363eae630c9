"""Imports the libraries that every export uses, without those of their modules that few exports use.

These take a third of the time that the libraries take to import. They are imported when they are first used.
"""

from __future__ import annotations

import numpy  # noqa: F401  (numpy asks itself for `numpy.typing`, which has to be in it before it is stood in for)

from onnx_parity.exporter.startup.deferred_imports import StandIn, standing_in

__all__ = ["import_libraries", "import_sums"]

_DEFERRED = (
    # onnx_ir._symbolic_shapes imports it at once.
    "sympy",
    "onnx_ir._symbolic_shapes",
    # Only needed for operators' signatures, for files, for passes and models on several devices.
    "onnx_ir.schemas",
    "onnx_ir.external_data",
    StandIn("onnx_ir._io", later=["load", "save"]),
    StandIn("onnx_ir._safetensors", later=["save_safetensors"]),
    "onnx_ir.passes",
    "onnx_ir.tape",
    StandIn(
        "onnx_ir._multi_device",
        later=(
            "IndexToDeviceGroupMapEntry",
            "ModelConfiguration",
            "NodeDeviceConfiguration",
            "ShardedDim",
            "ShardingSpec",
            "SimpleShardedDim",
        ),
    ),
    # Only needed to check a model, to infer its shapes, to convert it, and to read or write it as text.
    StandIn("onnx.onnx_cpp2py_export", later=["ONNX_ML"]),
    "onnx.onnx_cpp2py_export.checker",
    "onnx.checker",
    "onnx.compose",
    "onnx.defs",
    "onnx.gen_proto",
    "onnx.helper",
    "onnx.numpy_helper",
    "onnx.parser",
    "onnx.printer",
    "onnx.shape_inference",
    "onnx.utils",
    "onnx.version_converter",
    "google.protobuf.internal.python_message",
    "google.protobuf.json_format",
    "google.protobuf.text_format",
    # Only needed by annotations.
    "numpy.typing",
    "msgspec.inspect",
    "msgspec.toml",
    "msgspec.yaml",
)

#: They are computed when they are imported, which takes 25 ms.
_POLYHEDRA = StandIn(
    "sympy.combinatorics.polyhedron",
    later=("Polyhedron", "cube", "dodecahedron", "icosahedron", "octahedron", "tetrahedron"),
)


def import_libraries() -> None:
    with standing_in(*_DEFERRED):
        import msgspec  # noqa: F401
        import onnx_ir  # noqa: F401


def import_sums() -> None:
    """Import what sympy imports with its first sum: tensors, and for these the symmetries of polyhedra."""
    with standing_in(_POLYHEDRA):
        import sympy.tensor.tensor  # noqa: F401
