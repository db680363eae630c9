"""Programs over the parts of tensors that masks select, as masked autoencoders are, and over two such parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import floats, given, op

_Tensor = torch.Tensor
_DYNAMIC = {"x0": {0: "batch", 1: "places"}, "x1": {0: "batch", 1: "places"}}
_SIZES = {"batch": [1, 3], "places": [4, 7]}


def _of_parts(x: _Tensor, noise: _Tensor, program: Callable[[_Tensor, _Tensor, _Tensor, _Tensor], Any]) -> Any:
    """The function of a tensor, a mask with as many places in each sample, and the parts beside and under the mask."""
    mask = noise.argsort(1).argsort(1) < noise.shape[1] // 2
    batch, _, channels = x.shape
    return program(x, mask, x[~mask].reshape(batch, -1, channels), x[mask].reshape(batch, -1, channels))


def _decoded(x: _Tensor, visible: _Tensor, hidden: _Tensor) -> _Tensor:
    return torch.cat([visible * 2, hidden + 1], 1)[:, -hidden.shape[1] :]


def losses(x: _Tensor, mask: _Tensor, visible: _Tensor, hidden: _Tensor) -> Any:
    found = _decoded(x, visible, hidden)
    return (
        F.mse_loss(found, hidden), F.l1_loss(found, hidden), F.smooth_l1_loss(found, hidden),
        F.huber_loss(found, hidden), F.binary_cross_entropy_with_logits(found, hidden.sigmoid()),
        F.cosine_embedding_loss(found[:, 0], hidden[:, 0], torch.ones(1)),
    )  # fmt: skip


def checked(x: _Tensor, mask: _Tensor, visible: _Tensor, hidden: _Tensor) -> Any:
    found = _decoded(x, visible, hidden)
    if found.shape != hidden.shape:
        raise ValueError("another part was found than is hidden")
    if visible.shape[1] + hidden.shape[1] != x.shape[1]:
        raise ValueError("the parts are not all places")
    return found - hidden, torch.cat([visible, hidden], 1) + x


def filled(x: _Tensor, mask: _Tensor, visible: _Tensor, hidden: _Tensor) -> Any:
    batch, places, channels = x.shape
    token = torch.ones(1, 1, channels)
    repeated = token.expand(batch, places - visible.shape[1], channels)
    full = torch.zeros_like(x)
    full[~mask] = visible.flatten(0, 1)
    full[mask] = 0.5
    return torch.cat([visible, repeated], 1) + x, token.repeat(batch, hidden.shape[1], 1) + hidden, full


def attended(x: _Tensor, mask: _Tensor, visible: _Tensor, hidden: _Tensor) -> Any:
    heads = visible.view(*visible.shape[:-1], -1, 2).transpose(1, 2)
    found = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).contiguous()
    return found.reshape(*found.shape[:2], -1).contiguous() + visible


def selected(x: _Tensor, mask: _Tensor, visible: _Tensor, hidden: _Tensor) -> Any:
    batch, _, channels = x.shape
    chosen = torch.masked_select(x, mask.unsqueeze(-1)).view(batch, -1, channels)
    samples, places = mask.nonzero().unbind(1)
    return F.mse_loss(chosen, hidden), x[samples, places].view(batch, -1, channels).sum(1)


of_masked_parts = op(
    _of_parts, floats(2, 6, 4), floats(2, 6), program=[losses, checked, filled, attended, selected],
    dynamic=_DYNAMIC, sizes=_SIZES, without_nan="torch's kernels of attention differ about NaN",
)  # fmt: skip


def in_windows(x: _Tensor, mask: _Tensor, visible: _Tensor, hidden: _Tensor) -> Any:
    """Groups of places are put together, and these again, as they lie in memory."""
    batch, places, channels = visible.shape
    pairs = visible.view(batch, 2, 1, places // 2, 1, 1, channels).permute(0, 3, 1, 4, 2, 5, 6)
    windows = pairs.reshape(batch, -1, 2, 1, channels)
    again = windows.permute(0, 1, 3, 2, 4).view(batch, 2, windows.shape[1] // 2, 1, 2, channels)
    return windows, again.flatten(1, 2)


windows_of_masked_parts = op(
    _of_parts,
    floats(2, 8, 4),
    floats(2, 8),
    program=in_windows,
    dynamic=_DYNAMIC,
    sizes={"batch": [1, 3], "places": [16]},
)


# --- two parts whose sizes depend on values, and broadcast together ---------------------------------------------------


def summed(a: _Tensor, b: _Tensor) -> Any:
    both = a + b
    return both.mean(0), torch.arange(both.shape[0]), F.pad(both, (0, 0, 1, both.shape[0])), both * a, both.reshape(-1)


def of_three(a: _Tensor, b: _Tensor) -> Any:
    added, between = torch.addcmul(a, b, a), torch.lerp(a, b, 0.25)
    chosen = torch.where(a > 0, b, 0.5)
    return added, torch.arange(added.shape[0]), between / between.shape[0], chosen, torch.arange(chosen.shape[0])


def expanded(a: _Tensor, b: _Tensor) -> Any:
    one, other = torch.broadcast_tensors(a, b)
    shape = torch.broadcast_shapes(a.shape, b.shape)
    return torch.arange(one.shape[0]), torch.stack([one, other]), torch.zeros(shape), a.expand(shape)


def compared(a: _Tensor, b: _Tensor) -> Any:
    near, far = F.cosine_similarity(a, b), F.pairwise_distance(a, b)
    return near, far, torch.arange(near.shape[0]), torch.isclose(a, b), torch.linalg.vecdot(a, b), torch.dist(a, b)


def multiplied(a: _Tensor, b: _Tensor) -> Any:
    outer = torch.einsum("nc,nd->ncd", a, b)
    product = torch.matmul(a[:, None], b[:, :, None])
    return outer, torch.arange(outer.shape[0]), product, torch.arange(product.shape[0])


def _of_two_parts(x: _Tensor, first: _Tensor, second: _Tensor, program: Callable[[_Tensor, _Tensor], Any]) -> Any:
    return program(x[first > 0], x[second > 0])


of_two_parts = op(
    _of_two_parts, floats(5, 3), given([1, 0, 1, 1, 0]), given([0, 1, 0, 0, 0]),
    program=[summed, of_three, expanded, compared, multiplied],
)  # fmt: skip
of_two_parts_reversed = op(
    _of_two_parts, floats(5, 3), given([0, 0, 1, 0, 0]), given([1, 1, 0, 1, 1]),
    program=[summed, of_three, expanded, compared, multiplied],
)  # fmt: skip


def _less_its_first(x: _Tensor, chosen: _Tensor) -> Any:
    part = x[chosen > 0]
    found = part - part[:1]
    return found, found.mean(0), torch.arange(found.shape[0])


less_its_first = op(
    _less_its_first,
    floats(5, 3), given([0, 1, 1, 0, 1]),
)  # fmt: skip
