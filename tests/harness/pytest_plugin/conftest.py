"""What tests that run pytest within pytest need."""

from __future__ import annotations

# A pytest within pytest takes out the modules that it has imported, and onnx ends a process that imports it twice.
import onnx  # noqa: F401
