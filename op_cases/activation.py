"""Activation functions: thresholds, smooth gates, softmax."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, FLOATS, NUMBERS, SIGNED_INTS, WIDE_FLOATS, floats, given, ints, numbers, op
from onnx_parity.op_cases.function_sweeps import edges, of_one

#: In each dtype, because NaN is treated otherwise where there are other kernels.
_NAN = (math.nan,)
_EDGES = edges(math.nan, math.inf, -math.inf, 0.0, -0.0, 3.0, -3.0, 7.0, -7.0)

# --- two slopes -------------------------------------------------------------------------------------------------------

relu = op(F.relu, numbers(2, 3), dtypes=NUMBERS, dynamic=BATCH)
relu_spellings = op(lambda x: (torch.relu(x), x.relu(), (x + 1).relu_(), F.relu(x * 2, inplace=True)), floats(2, 3))
relu_module = op(nn.ReLU, floats(2, 3), inplace=[False, True])
leaky_relu = op(
    F.leaky_relu, floats(2, 3, special=_NAN), negative_slope=[0.01, -0.2, 0.0], dtypes=FLOATS, dynamic=BATCH
)
prelu = op(F.prelu, floats(2, 3, 4, special=_NAN), weight=[floats(1), floats(3)], dtypes=FLOATS)
prelu_of_matrix = op(F.prelu, floats(2, 3), weight=floats(3), dynamic=BATCH)
prelu_module = op(nn.PReLU, floats(2, 3, 4, 5), num_parameters=[1, 3])
rrelu = op(F.rrelu, floats(2, 3), lower=[0.1, 0.25], upper=[0.5], training=False)
rrelu_module = op(nn.RReLU, floats(2, 3), train=False)

# --- exponential ------------------------------------------------------------------------------------------------------

elu = op(F.elu, floats(2, 3, special=_NAN), alpha=[1.0, 0.5], dtypes=FLOATS)
elu_ = op(lambda x: F.elu(x + 1, inplace=True), floats(2, 3))
selu = op(F.selu, floats(2, 3, special=_NAN), dtypes=FLOATS)
celu = op(F.celu, floats(2, 3, special=_NAN), alpha=[1.0, 0.5, 2.0], dtypes=FLOATS)
softplus = op(F.softplus, floats(2, 3, special=_NAN), beta=[1.0, 2.0, 0.5], threshold=[20.0, 0.5], dtypes=FLOATS)
softplus_far = op(F.softplus, given([-40.0, -20.0, 18.0, 25.0, 200.0]), beta=[1.0, 3.0], dtypes=WIDE_FLOATS)
logsigmoid = op(F.logsigmoid, floats(2, 3, special=_NAN), dtypes=FLOATS)
sigmoid = op(torch.sigmoid, floats(2, 3, special=_NAN), dtypes=FLOATS)
sigmoid_far_below = op(torch.sigmoid, given([-5.0, -10.0, -15.0]))
#: Of what is small, every digit counts.
digits_of_sigmoids = op(
    lambda x: [torch.log(torch.sigmoid(x)), torch.logit(torch.sigmoid(x), 1e-5), 1 / torch.sigmoid(x)],
    given([-80.0, -20.0, -15.0, -5.0, 0.0, 4.0]),
    dtypes=[torch.float32, torch.float64],
)
tanh = op(torch.tanh, floats(2, 3, special=_NAN), dtypes=FLOATS)
mish = op(F.mish, floats(2, 3, special=_NAN), dtypes=FLOATS)
silu = op(F.silu, floats(2, 3, special=_NAN), dtypes=FLOATS)
#: Other exporters silently write Gelu, or Erf, at opsets that do not have it.
gelu = op(F.gelu, floats(4, 6, special=_NAN), approximate=["none", "tanh"], dtypes=FLOATS, dynamic=BATCH)
gelu_of_scalar = op(lambda x: F.gelu(x.sum(), approximate="tanh") * 2, floats(2, 3, low=0.1, high=0.4))
gelu_beside_its_half = op(lambda x: (F.gelu(x, approximate="tanh").abs(), (x * 0.5).relu()), floats(2, 3))
gelu_module = op(nn.GELU, floats(2, 3), approximate=["none", "tanh"])
glu = op(F.glu, floats(4, 6), dim=[0, 1, -1], dynamic=BATCH, sizes={"batch": [2, 6]})
glu_dtypes = op(F.glu, floats(4, 6, special=_NAN), dtypes=FLOATS)

# --- piecewise linear -------------------------------------------------------------------------------------------------

threshold = op(
    F.threshold, floats(2, 3, special=(math.nan, 0.3)), threshold=[0.0, 0.3], value=[0.0, -1.5], dtypes=FLOATS
)
threshold_of_integers = op(F.threshold, numbers(2, 3), threshold=[0, 1], value=[0, 3], dtypes=SIGNED_INTS[:3])
hardtanh = op(F.hardtanh, floats(2, 3, special=_NAN), min_val=[-1.0, -0.3], max_val=[1.0, 0.2], dtypes=FLOATS)
relu6 = op(F.relu6, floats(2, 3, low=-3.0, high=9.0, special=_NAN), dtypes=FLOATS)
hardsigmoid = op(F.hardsigmoid, floats(2, 3, low=-5.0, high=5.0, special=_NAN), dtypes=FLOATS)
hardswish = op(F.hardswish, floats(2, 3, low=-5.0, high=5.0, special=_NAN), dtypes=FLOATS)
softshrink = op(
    F.softshrink, floats(2, 3), lambd=[0.5, 0.0, 1.2], dtypes=FLOATS,
    signed_zeros=False, because="torch gives zeros the sign of the input, and ONNX's Shrink gives them none",
)  # fmt: skip
hardshrink = op(F.hardshrink, floats(2, 3, special=(math.nan, 0.5)), lambd=[0.5, 0.0, 1.2], dtypes=FLOATS)
softsign = op(F.softsign, floats(2, 3, special=_NAN), dtypes=FLOATS)
tanhshrink = op(F.tanhshrink, floats(2, 3), dtypes=WIDE_FLOATS)
in_place = op(
    lambda x: [
        *(f(x + 1, inplace=True) for f in (F.elu, F.selu, F.celu, F.leaky_relu, F.hardtanh, F.relu6, F.silu, F.mish)),
        *(f(x + 1, inplace=True) for f in (F.hardswish, F.hardsigmoid)),
        F.threshold(x + 1, 0.5, 2.0, inplace=True),
    ],
    floats(2, 3),
    dtypes=FLOATS,
    dynamic=BATCH,
)
at_edges = op(
    of_one,
    _EDGES,
    f=[
        F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.softplus, F.logsigmoid, F.mish, F.silu, F.hardtanh,
        F.hardsigmoid, F.hardswish, F.softshrink, F.hardshrink, F.softsign, F.tanhshrink,
    ],
    dtypes=WIDE_FLOATS,
    signed_zeros=False,
    because="onnxruntime's Selu and Celu return 0.0 for -0.0, and ONNX's Shrink gives zeros no sign",
)  # fmt: skip

# --- over an axis -----------------------------------------------------------------------------------------------------

#: Other exporters are silently wrong about a softmax over any axis but the last, before opset 13.
softmax = op(F.softmax, floats(2, 3, 4), dim=[0, 1, -1], dynamic=BATCH)
softmax_dtypes = op(F.softmax, floats(2, 3, 4, special=_NAN), dim=[1, 2], dtypes=FLOATS)
softmax_to = op(
    F.softmax, numbers(2, 3), dim=0, dtype=[torch.float32, torch.float64], dtypes=[torch.float32, torch.int64]
)
softmax_of_vector = op(lambda x: (x.softmax(0), x[0].softmax(0), F.softmin(x, 0)), floats(4))
softmax_masked = op(F.softmax, given([[-math.inf, 0.0, 1.0], [2.0, -math.inf, -math.inf]]), dim=[0, 1])
softmax_of_nothing = op(F.softmax, floats(0, 3), dim=[0, 1])
log_softmax = op(F.log_softmax, floats(2, 3, 4), dim=[0, 1, -1], dynamic=BATCH)
log_softmax_dtypes = op(F.log_softmax, floats(2, 3, 4, special=_NAN), dim=[1, 2], dtypes=FLOATS)
log_softmax_beside_infinities = op(
    F.log_softmax,
    given(
        [
            [0.0, math.inf, 1.0],
            [-math.inf, 0.0, 2.0],
            [-math.inf] * 3,
            [700.0, 710.0, -800.0],
            [math.nan, 0.0, 1.0],
        ]
    ),
    dim=[0, 1],
    dtypes=FLOATS,
)
log_softmax_to = op(F.log_softmax, ints(2, 3), dim=1, dtype=torch.float64)
softmax_modules = op(nn.Softmax, floats(2, 3, 4, 5), dim=[1, 3])
softmax2d = op(nn.Softmax2d, floats(2, 3, 4, 5))
softmin_of_first_axis = op(F.softmin, floats(3, 4), dim=-2)
elu_scaled = op(lambda x: torch.ops.aten.elu(x, 1.2, 1.5), floats(2, 3), dtypes=FLOATS)
#: Each argument where the size is dynamic.
arguments_of_any_size = op(
    lambda x: (
        F.celu(x, 2.0), F.elu(x, 0.5), F.leaky_relu(x, -0.2), F.hardtanh(x, -0.3, 0.4), F.softplus(x, 2.0, 0.1),
        F.threshold(x, 0.1, -0.5), F.hardshrink(x, 0.3), F.softshrink(x, 0.3), F.gelu(x, approximate="tanh"),
        F.glu(x, 0), F.logsigmoid(x), F.softmax(x, 0), F.rrelu(x, 0.2, 0.4), torch.ops.aten.elu(x, 1.2, 1.5),
    ),
    floats(4, 3),
    dynamic={"x": {1: "columns"}}, tolerance=3e-7,
    because="onnxruntime's Celu computes exp(x / 2) - 1, which loses digits",
)  # fmt: skip
