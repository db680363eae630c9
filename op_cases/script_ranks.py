"""Results whose number of axes depends on sizes or on values: squeezed axes that may be 1, branches of other ranks."""

import torch
from torch import Tensor

from onnx_parity.harness.case import floats, op, scripted

_ALL = {"x": {0: "rows", 1: "columns", 2: "depth"}}
_ROWS = {"x": {0: "rows"}}


def squeeze(x: Tensor) -> Tensor:
    return x.squeeze(1)


def squeeze_all(x: Tensor) -> Tensor:
    return torch.squeeze(x)


def squeeze_some(x: Tensor) -> Tensor:
    return x.squeeze([0, -1])


def squeeze_then_elementwise(x: Tensor) -> Tensor:
    y = x.squeeze(0) * 2 - 1
    return y * torch.sigmoid(y)


def return_of_other_rank(x: Tensor) -> Tensor:
    if x.size(0) > 2:
        return x.sum(0)
    return x


def branches(x: Tensor) -> Tensor:
    y = x.sum([0, 1]) if bool(x.sum() > 0) else x * 2
    return torch.relu(y)


def squeeze_of_values(x: Tensor) -> Tensor:
    return torch.ones([int(x.sum() > 0) + 1, x.size(0)]).squeeze(0)


script_squeeze = op(scripted(squeeze), floats(2, 1, 4), dynamic=_ALL)
traced_squeeze = op(squeeze, floats(2, 1, 4), dynamic=_ALL)
script_squeeze_all = op(scripted(squeeze_all), floats(2, 1, 4), dynamic=_ALL)
traced_squeeze_all = op(squeeze_all, floats(2, 1, 4), dynamic=_ALL)
script_squeeze_some = op(scripted(squeeze_some), floats(2, 3, 4), dynamic=_ALL)
traced_squeeze_some = op(squeeze_some, floats(2, 3, 4), dynamic=_ALL)
script_squeeze_then_elementwise = op(scripted(squeeze_then_elementwise), floats(2, 3, 4), dynamic=_ROWS)
traced_squeeze_then_elementwise = op(squeeze_then_elementwise, floats(2, 3, 4), dynamic=_ROWS)
script_return_of_other_rank = op(scripted(return_of_other_rank), floats(3, 2, 4), dynamic=_ALL)
script_branches_of_ranks = op(scripted(branches), floats(3, 2, 4), dynamic=_ALL)
script_squeeze_of_values = op(scripted(squeeze_of_values), floats(3, 2), dynamic=_ROWS)
