"""Every entry of PyTorch's operator database that opinfo.py does not name; the file beside it lists the samples."""

from __future__ import annotations

from onnx_parity.harness.opinfo import every_operator
from onnx_parity.op_cases.opinfo import opinfo

operator_database = every_operator(besides=opinfo)
