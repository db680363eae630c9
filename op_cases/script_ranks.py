"""Results whose number of axes depends on sizes or on values: squeezed axes that may be 1, branches of other ranks, and
sizes in a list of unknown length; and lists of tensors of other ranks.
"""

import torch
from torch import Tensor

from onnx_parity.harness.case import floats, op, scripted

_ALL = {"x": {0: "rows", 1: "columns", 2: "depth"}}
_ROWS = {"x": {0: "rows"}}
_BOTH = {"x": {0: "rows", 1: "columns"}}


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


def sizes_in_a_list(x: Tensor) -> Tensor:
    return x.new_zeros(x.shape[1 : x.size(2)])


def ones_of_sizes_in_a_list(x: Tensor) -> tuple[Tensor, int]:
    sizes = x.shape[-x.size(2) :]
    return torch.ones(sizes, dtype=torch.int64) * 2, len(sizes)


def full_of_sizes_in_a_list(x: Tensor) -> Tensor:
    return torch.full(x.shape[: x.size(2)], x.sum().item()) + 1


def list_of_ranks(x: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    items = list(x)
    items.append(x)
    items.insert(0, x.sum())
    return items, items[-1] * 2, items[x.size(0)].exp()


def list_of_ranks_in_a_branch(x: Tensor) -> list[Tensor]:
    if x.size(1) < 5:
        if x.size(0) == 1:
            x = x + 4
        else:
            items = list(x)
            items.append(x)
            return items
    return [x, x]


def list_of_ranks_in_a_loop(x: Tensor) -> list[Tensor]:
    items: list[Tensor] = []
    for i in range(x.size(0)):
        if i > 0:
            items.append(x)
        for j in range(x.size(1)):
            items.append(x[i][j])
    return items


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
script_sizes_in_a_list = op(scripted(sizes_in_a_list), floats(1, 2, 3, 4), dynamic={"x": {0: "a", 1: "b", 2: "c"}})
script_ones_of_sizes_in_a_list = op(scripted(ones_of_sizes_in_a_list), floats(3, 2, 2), dynamic=_ALL)
script_full_of_sizes_in_a_list = op(scripted(full_of_sizes_in_a_list), floats(3, 2, 2), dynamic=_ALL)
script_list_of_ranks = op(scripted(list_of_ranks), floats(3, 4), dynamic=_BOTH)
script_list_of_ranks_in_a_branch = op(scripted(list_of_ranks_in_a_branch), floats(3, 4), dynamic=_BOTH)
script_list_of_ranks_in_a_loop = op(scripted(list_of_ranks_in_a_loop), floats(3, 4), dynamic=_BOTH)
