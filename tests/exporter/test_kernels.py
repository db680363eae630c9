"""The table of onnxruntime's kernels agrees with the kernels that the installed onnxruntime lists."""

from __future__ import annotations

import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as onnxruntime_itself
import pytest
import torch

import onnx_parity
from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.schema import runtime_kernels
from onnx_parity.exporter.lowering.schema.signatures import signature

OPSETS = range(7, 27)
NO_END = 2**31 - 1
DTYPES = {f"tensor({onnx.name.lower()})": dtype for dtype, onnx in TO_ONNX.items() if not dtype.is_complex}


def registered() -> dict[tuple[str, str], list[tuple[int, int, set[str]]]]:
    """Operator and type constraint, to the versions and type strings of each kernel of the CPU provider."""
    found: dict[tuple[str, str], list[tuple[int, int, set[str]]]] = {}
    for kernel in onnxruntime_itself.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and not kernel.domain:
            for name, types in kernel.type_constraints.items():
                found.setdefault((kernel.op_name, name), []).append((*kernel.version_range, set(types)))
    return found


def serves(first: int, last: int, version: int) -> bool:
    """A kernel without an end serves the version that it was written for, and none that came after."""
    return first == version or (first < version <= last < NO_END)


@pytest.mark.skipif(not onnxruntime.__version__.startswith("1.31."), reason="the table describes onnxruntime 1.31")
def test_table_is_what_onnxruntime_has() -> None:
    actual = registered()
    wrong = []
    for op, type_name in runtime_kernels._table():
        for opset in OPSETS:
            try:
                specified = signature(op, opset)
            except Unsupported:
                continue
            if type_name not in specified.allowed:
                continue
            runs = {
                DTYPES[string]
                for first, last, strings in actual[op, type_name]
                if serves(first, last, specified.since_version)
                for string in strings & DTYPES.keys()
            }
            if runtime_kernels.kernel_dtypes(op, type_name, opset) != frozenset(
                runs | {torch.float16} if runs else runs
            ):
                wrong.append((op, type_name, opset))
    assert not wrong


def test_what_runs_in_no_dtype_that_holds_doubles_is_written_all_the_same() -> None:
    matrices = torch.linspace(-1, 1, 32, dtype=torch.float64).reshape(2, 4, 4).cos()
    program = onnx_parity.export(torch.det, (matrices,))
    torch.testing.assert_close(program.call_reference(matrices), torch.det(matrices))
