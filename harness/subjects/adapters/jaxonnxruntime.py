"""jaxonnxruntime as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter, saying
from onnx_parity.harness.subjects.loading import jaxonnxruntime

RUNTIME = Adapter(
    name="jaxonnxruntime",
    # It imports absl without saying so.
    modules={"jaxonnxruntime": "jaxonnxruntime", "jax": "jax", "absl-py": "absl"},
    opsets=tuple(opset for opset in OPSETS if opset <= 18),
    dtypes=frozenset(Dtype),
    open=jaxonnxruntime.load,
    is_refusal=saying("is not implemented", "not supported"),
    tracker="https://github.com/google/jaxonnxruntime/issues",
)
