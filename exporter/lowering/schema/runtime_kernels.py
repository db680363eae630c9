"""The dtypes for which onnxruntime's CPU provider has kernels, if these are fewer than in the ONNX specification.

onnxruntime does not load a valid model if it lacks a kernel. If there are two equivalent forms, the one that it can run
is written. float16 is not considered, because onnxruntime computes it in float32 by itself; bfloat16 and integers are.
"""

from __future__ import annotations

from functools import cache

import torch

from onnx_parity.exporter.dtypes import FLOAT8
from onnx_parity.exporter.lowering.schema.signature_table import LETTERS

__all__ = ["kernel_dtypes"]

#: Stands for all floats of 8 bits.
_FLOAT8 = "8"

#: The operator, with the type constraint if that is not T; then the dtypes with kernels from an opset on. An operator
#: that is missing has kernels for all dtypes of the specification. For onnxruntime 1.31.1; a test compares the table
#: with the kernels that onnxruntime lists.
_TABLE = """
Abs 7:fdlihbBHIL
Acos 7:f
Acosh 9:f
Add 7:fdliIL 14:fdlihbBHIL
ArgMax 7:fdlibB
ArgMin 7:fdlibB
Asin 7:f
Asinh 9:f
Atan 7:f
Atanh 9:f
Attention.T1 23:fe 25:
Attention.T2 23:fe 25:
Attention.U 23:fe? 25:
AveragePool 7:f
BatchNormalization 7:fd
BatchNormalization.T1 15:fd
BatchNormalization.T2 15:fd
BatchNormalization.U 14:fd
BitShift 11:BIL
Ceil 7:fd
Clip 7:f 12:fdelibBIL
Col2Im 18:f
Conv 7:f
ConvTranspose 7:f
Cos 7:fd
Cosh 9:f
CumProd 26:fdliIL
CumSum 11:fdli
DepthToSpace 7:fd 11:fdbB
Det 11:f
Div 7:fdliIL 14:fdlihbBHIL
Dropout 7:fde 12:fd
Dropout.T1 10:? 12:fd
Einsum 12:fdli
Elu 7:f
Equal 7:fdli? 11:fdlihbBHIL?
Erf 9:f
Exp 7:fd
Expand 8:fdelihbBHIL?
Floor 7:fd
GRU 7:fd
Gelu 20:f
Gemm 7:fd
GlobalAveragePool 7:f
GlobalMaxPool 7:f
Greater 7:fd 9:fdlihbBHIL
GreaterOrEqual 12:fdlihbBHIL
GridSample.T1 16:f 20:fd
GridSample.T2 16:f 20:fd
HardSigmoid 7:f
InstanceNormalization 7:f
IsNaN.T1 9:fde 20:fdeE8
LSTM 7:fd
LayerNormalization.U 17:f
LeakyRelu 7:f
Less 7:fd 9:fdlihbBHIL
LessOrEqual 12:fdlihbBHIL
Log 7:fd
LogSoftmax 7:fd
MatMul 7:fd 9:fdliIL
Max 7:f 8:fd 12:fdelibBIL
MaxPool 7:f 8:fd 12:fdbB
Min 7:f 8:fd 12:fdelibBIL
Mod 10:fdelihbBHIL
Mul 7:fdliIL 14:fdlihbBHIL
Neg 7:fdlihb
NonZero 9:fliB?
OneHot.T1 9:fli
OneHot.T2 9:fli
OneHot.T3 9:fli
PRelu 7:f
Pad 7:fd 11:fdlibBIL 13:fdlibBIL?
Pow 7:fd 12:fdli
Pow.T1 12:fdli
RMSNormalization 23:fde
RMSNormalization.V 23:fde
RNN 7:f
RandomNormal 7:fd 22:
RandomNormalLike.T1 7:fdeElihbBHIL? 22:
RandomNormalLike.T2 7:fd 22:
RandomUniform 7:fd 22:
RandomUniformLike.T1 7:fdeElihbBHIL? 22:
RandomUniformLike.T2 7:fd 22:
Reciprocal 7:fd
ReduceL1 7:fdli
ReduceL2 7:fdli
ReduceLogSum 7:fdli
ReduceLogSumExp 7:fdli
ReduceMax 7:fdli 12:fdlibB 20:fdlibB?
ReduceMean 7:fdli
ReduceMin 7:fdli 12:fdlibB 20:fdlibB?
ReduceProd 7:fdli
ReduceSum 7:fdli
ReduceSumSquare 7:fdli
Relu 7:fd 14:fdib
Resize 10:fibB
Resize.T1 11:fibB
RoiAlign.T1 10:fd 22:
Round 11:fde
Selu 7:f
Sigmoid 7:fd
Sin 7:fd
Sinh 9:f
Size 7:fdlihbBHIL?
Softmax 7:fd
Softplus 7:f
Softsign 7:f
Sqrt 7:fd
Sub 7:fdliIL 14:fdlihbBHIL
Tan 7:f
Tanh 7:fd
ThresholdedRelu 10:f
Tile 7:fdlihbBHIL?
TopK 7:fd 11:fdlihbB
Trilu 14:fdli?
Unique 11:fdlb
Upsample 7:fibB
Where 9:fdlibBI
"""


def kernel_dtypes(op: str, type_name: str, opset: int) -> frozenset[torch.dtype] | None:
    """The dtypes for which onnxruntime has a kernel at an opset; None if it has one for each that ONNX allows."""
    newest = None
    for since, dtypes in _table().get((op, type_name), ()):
        if since <= opset:
            newest = dtypes
    return newest


@cache
def _table() -> dict[tuple[str, str], list[tuple[int, frozenset[torch.dtype]]]]:
    table = {}
    for line in _TABLE.split("\n"):
        if line:
            name, *entries = line.split()
            op, _, type_name = name.partition(".")
            table[op, type_name or "T"] = [_parsed(entry) for entry in entries]
    return table


def _parsed(entry: str) -> tuple[int, frozenset[torch.dtype]]:
    since, _, letters = entry.partition(":")
    dtypes = frozenset(LETTERS[letter] for letter in letters if letter != _FLOAT8)
    if _FLOAT8 in letters:
        dtypes |= FLOAT8
    return int(since), dtypes | {torch.float16} if dtypes else dtypes
