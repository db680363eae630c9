"""Complex tensors that are joined, repeated and taken apart."""

from __future__ import annotations

from onnx_parity.exporter.kinds.complex_parts import by_parts

by_parts("aten::cat", "aten::stack", "aten::block_diag", data=("tensors",))
by_parts(
    "aten::repeat", "aten::split.Tensor", "aten::split_with_sizes", "aten::unbind.int", "aten::split_copy.Tensor",
    "aten::split_with_sizes_copy", "aten::unbind_copy.int",
)  # fmt: skip
