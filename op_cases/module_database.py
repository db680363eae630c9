"""Every entry of PyTorch's module database, whose modules are run as torch tests them, in evaluation mode."""

from __future__ import annotations

from onnx_parity.harness.opinfo import every_module

module_database = every_module()
