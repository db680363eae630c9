"""Activation functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from harness.case import floats, op

elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
elu_ = op(lambda x: F.elu(x + 1, inplace=True), floats(2, 3))
glu = op(F.glu, floats(4, 6), dim=[0, 1, -1], dynamic={"x": {0: "batch"}}, sizes={"batch": [2, 6]})
leaky_relu = op(F.leaky_relu, floats(2, 3), negative_slope=[0.01, -0.2], dynamic={"x": {0: "batch"}})
log_softmax = op(F.log_softmax, floats(2, 3, 4), dim=[0, 1, -1], dynamic={"x": {0: "batch"}})
prelu = op(F.prelu, floats(2, 3, 4), weight=[floats(1), floats(3)])
sigmoid = op(torch.sigmoid, floats(2, 3))
softmax = op(F.softmax, floats(2, 3, 4), dim=[0, 1, -1], dynamic={"x": {0: "batch"}})
tanh = op(torch.tanh, floats(2, 3))
threshold = op(F.threshold, floats(2, 3), threshold=[0.0, 0.3], value=[0.0, -1.5])
