"""The bits of floats, and the floats of bits, before ONNX has an operator for them."""

from __future__ import annotations

import pytest
import torch

import onnx_parity

_OF_BYTES = {2: torch.int16, 4: torch.int32}


def _bits(dtype: torch.dtype) -> torch.Tensor:
    """All bits of floats of two bytes; of four bytes those of each exponent, beside the next one and between."""
    if dtype is not torch.float32:
        return torch.arange(-(2**15), 2**15).to(torch.int16)
    firsts = torch.arange(256)[:, None] << 23
    fractions = torch.tensor([0, 1, 2, 3, 2**22 - 1, 2**22, 2**22 + 1, 0x2AAAAA, 2**23 - 2, 2**23 - 1])
    positive = (firsts + fractions).flatten()
    return torch.cat([positive, positive - 2**31]).to(torch.int32)


#: ONNX got bfloat16 with opset 13.
_OPSETS = {torch.float32: (9, 18, 25), torch.float16: (9, 18, 25), torch.bfloat16: (18, 25)}


@pytest.mark.parametrize(("dtype", "opset"), [(dtype, opset) for dtype in _OPSETS for opset in _OPSETS[dtype]])
def test_bits_before_opset_26(dtype: torch.dtype, opset: int) -> None:
    bits = _bits(dtype)
    floats = bits.view(dtype)
    integers = _OF_BYTES[dtype.itemsize]
    as_floats = onnx_parity.export(lambda x: x.view(dtype), (bits,), input_names=["x"], opset_version=opset)
    torch.testing.assert_close(as_floats(bits), floats, rtol=0, atol=0, equal_nan=True)
    # A model does not keep which NaN it is given.
    floats = torch.where(floats.isnan(), torch.nan, floats).to(dtype)
    as_bits = onnx_parity.export(lambda x: x.view(integers), (floats,), input_names=["x"], opset_version=opset)
    assert "BitCast" not in {node.op_type for node in as_bits.model_proto.graph.node}
    assert torch.equal(as_bits(floats), floats.view(integers))
    # Equal floats may differ in the sign of zero.
    assert torch.equal(as_floats(bits).signbit() & (floats == 0), floats.signbit() & (floats == 0))
