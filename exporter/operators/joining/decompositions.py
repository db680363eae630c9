"""Copies of tensors in parts, recorded as views of them and copies."""

from onnx_parity.exporter.registry.copies_of_views import record_as_copies_of

record_as_copies_of(
    {"split_copy.Tensor": "split.Tensor", "split_with_sizes_copy": "split_with_sizes", "unbind_copy.int": "unbind.int"}
)
