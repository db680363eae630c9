"""Copies of parts of tensors, recorded as views of them and copies."""

from onnx_parity.exporter.registry.copies_of_views import record_as_copies_of

record_as_copies_of({"narrow_copy": "narrow", "select_copy.int": "select.int", "slice_copy.Tensor": "slice.Tensor"})
