"""The tables of onnxruntime's kernels and of ONNX's operators agree with what the installed packages list."""

from __future__ import annotations

import msgspec
import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as onnxruntime_itself
import pytest
import torch
from onnx.helper import OP_SET_ID_VERSION_MAP

import onnx_parity
from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.schema import runtime_kernels
from onnx_parity.exporter.lowering.schema.signature_table import TABLE, versions
from onnx_parity.exporter.lowering.schema.signatures import is_known, signature
from onnx_parity.exporter.lowering.schema.write_signatures import __name__ as writer
from onnx_parity.exporter.lowering.schema.write_signatures import table_of_onnx
from onnx_parity.exporter.request.opsets import IR_VERSIONS

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


@pytest.mark.slow
@pytest.mark.skipif(not onnx.__version__.startswith("1.23."), reason="the table describes onnx 1.23")
def test_signatures_are_those_of_onnx() -> None:
    names = msgspec.json.decode(TABLE.read_bytes(), type=dict[str, msgspec.Raw])
    assert {op: versions(op) for op in names} == table_of_onnx(), f"write it anew: python -m {writer}"


def test_opsets_came_with_the_versions_of_the_format_that_onnx_names() -> None:
    assert {opset: OP_SET_ID_VERSION_MAP["ai.onnx", opset] for opset in IR_VERSIONS} == IR_VERSIONS


def test_signature_of_an_opset_is_that_of_the_version_it_has() -> None:
    assert [signature("Add", opset).since_version for opset in (7, 12, 13, 14, 26)] == [7, 7, 13, 14, 14]
    assert torch.bfloat16 in signature("Add", 13).allowed["T"]
    assert torch.bfloat16 not in signature("Add", 12).allowed["T"]
    concat = signature("Concat", 13)
    assert (concat.variadic_input, concat.heterogeneous) == (True, False)
    assert signature("Loop", 13).heterogeneous


def test_operators_that_an_opset_does_not_have() -> None:
    with pytest.raises(Unsupported, match="ONNX has Gelu only from opset 20") as error:
        signature("Gelu", 19)
    assert error.value.since == 20
    with pytest.raises(Unsupported, match="ONNX removed Upsample in opset 10"):
        signature("Upsample", 13)
    with pytest.raises(TypeError, match="ONNX has no operator Gelo: check its name"):
        signature("Gelo", 20)
    assert is_known("Gelu")
    assert not is_known("Gelo")


def test_an_operator_that_is_registered_in_the_onnx_package_is_known() -> None:
    schema = onnx.defs.OpSchema
    own = schema(
        "KnownToOnnxAlone",
        "",
        12,
        inputs=[schema.FormalParameter("X", "T")],
        outputs=[schema.FormalParameter("Y", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
    )
    assert not is_known("KnownToOnnxAlone")
    onnx.defs.register_schema(own)
    try:
        assert is_known("KnownToOnnxAlone")
        assert signature("KnownToOnnxAlone", 13).allowed == {"T": {torch.float32}}
        with pytest.raises(Unsupported, match="only from opset 12"):
            signature("KnownToOnnxAlone", 11)
    finally:
        onnx.defs.deregister_schema("KnownToOnnxAlone", 12, "")
        signature.cache_clear()
