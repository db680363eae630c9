"""Nested tensors inside a program: to padded and back, in the jagged layout as a rule, for any lengths of the rows."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nested, nn
from torch.nested._internal.nested_tensor import nested_from_padded, nested_view_from_values_offsets_lengths

from onnx_parity.harness.case import floats, given, ints, model, op

_JAGGED = torch.jagged
#: The number of values and that of the rows.
_ANY = {"x0": {0: "total"}, "x1": {0: "cuts"}}


def _offsets(values: Tensor, cuts: Tensor) -> Tensor:
    """Offsets of rows that end at these places, in whatever order, and at the end. Rows may be empty."""
    total = values.shape[0]
    ends = cuts.clamp(0, total).sort().values
    return torch.cat([torch.zeros(1, dtype=torch.int64), ends, torch.full((1,), total)])


def _of_rows(function: Callable[[Any], Any]) -> Callable[[Tensor, Tensor], Any]:
    """A program that gives the function a nested tensor."""

    def program(values: Tensor, cuts: Tensor) -> Any:
        return function(nested.nested_tensor_from_jagged(values, _offsets(values, cuts)))

    return program


def _row_cases(function: Callable[[Any], Any], features: int = 3, without_draws: str = "") -> Any:
    example = floats(7, features), ints(3, low=0, high=8)
    return op(_of_rows(function), *example, dynamic=_ANY, without_draws=without_draws)


# --- to padded and back -----------------------------------------------------------------------------------------------

nested_padded = _row_cases(lambda nt: (nt * 2).to_padded_tensor(-1.0))
nested_padded_to_size = _row_cases(lambda nt: nested.to_padded_tensor(nt, 0.5, (nt.size(0), 9, 3)))
nested_padded_to_size_by_method = _row_cases(lambda nt: nt.to_padded_tensor(0.5, (nt.size(0), 9, 3)))
nested_padded_features_first = _row_cases(lambda nt: nt.transpose(1, 2).to_padded_tensor(0.0))
nested_padded_after_softmax = _row_cases(lambda nt: (nt.softmax(1).values(), nt.to_padded_tensor(0.0)))
nested_back = _row_cases(lambda nt: nested_from_padded(nt.to_padded_tensor(0.0).sin(), nt.offsets()).values())
#: The ragged axis comes last.
nested_back_features_first = op(
    lambda x: nested_from_padded(x.sin(), torch.tensor([0, 2, 2, 7]), 2).values(),
    floats(3, 4, 6),
    dynamic={"x": {1: "features", 2: "longest"}},
    sizes={"longest": (5, 9)},
)
nested_viewed_features_first = op(
    lambda x: nested_view_from_values_offsets_lengths(x, torch.tensor([0, 2, 2, 7]), None, 2).sin().unbind(),
    floats(3, 7),
    dynamic={"x": {0: "features"}},
)


def of_lengths(values: Tensor) -> Tensor:
    lengths = torch.tensor([2, 0, 5])
    return nested.nested_tensor_from_jagged(values, lengths=lengths, max_seqlen=6, min_seqlen=0).to_padded_tensor(0.0)


def kernels(values: Tensor, cuts: Tensor) -> Any:
    offsets = _offsets(values, cuts)
    dense = torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [values.shape[0]], -1.0)
    return dense, torch.ops.aten._padded_dense_to_jagged_forward(dense.exp(), [offsets], values.shape[0])


def with_holes(values: Tensor, lengths: Tensor) -> Any:
    nt: Any = nested.nested_tensor_from_jagged(values, torch.tensor([0, 3, 5, 7]), lengths)
    return nt.cos().values(), nt.contiguous().to_padded_tensor(0.0), nt.contiguous().offsets()


def narrowed(x: Tensor, starts: Tensor, lengths: Tensor) -> Any:
    starts = starts.clamp(max=x.shape[1])
    lengths = torch.minimum(lengths, x.shape[1] - starts)
    nt: Any = nested.narrow(x, 1, starts, lengths, layout=_JAGGED)
    return nt.exp().values(), nt.contiguous().to_padded_tensor(0.0), nt.offsets()


def rows_apart(values: Tensor, cuts: Tensor) -> Any:
    first, second, third = nested.nested_tensor_from_jagged(values, _offsets(values, cuts)).unbind()
    return first.sum(0), second * 2, third


def masked(x: Tensor) -> Tensor:
    return nested.masked_select(x, x > 0).to_padded_tensor(-9.0)


nested_given_lengths = op(
    of_lengths, floats(7, 3), without_draws="torch does not check that the lengths add up to the number of rows"
)
nested_kernels_of_padding = op(kernels, floats(7, 3), ints(3, low=0, high=8), dynamic=_ANY)
nested_holes = op(with_holes, floats(7, 3), ints(3, low=1, high=3), dynamic={"x0": {1: "features"}})
nested_narrow = op(
    narrowed,
    floats(3, 4, 2),
    ints(3, low=0, high=2),
    ints(3, low=1, high=4),
    dynamic={"x0": {1: "size"}},
    sizes={"size": (5, 9)},  # torch checks no ends: of shorter rows it would read what lies behind them.
)
nested_narrow_of_whole_rows = op(narrowed, floats(2, 4, 2), given([1, 0]), given([3, 2]))
nested_unbind = op(rows_apart, floats(7, 3), ints(2, low=0, high=8), dynamic={"x0": {0: "total"}})
nested_masked_select = op(masked, floats(3, 4), dynamic={"x": {0: "rows"}})

# --- made of a list ---------------------------------------------------------------------------------------------------


def _listed(a: Tensor, b: Tensor, layout: Any) -> Any:
    nt = nested.nested_tensor([a, b], layout=layout)
    same = F.linear(nested.as_nested_tensor([a, b], layout=layout), torch.ones(2, 3), torch.ones(2))
    return nt.mul(3).to_padded_tensor(-1.0), same.to_padded_tensor(0.0), [part + 1 for part in nt.unbind()]


def of_list(a: Tensor, b: Tensor) -> Any:
    return _listed(a, b, _JAGGED)


def of_list_strided(a: Tensor, b: Tensor) -> Any:
    return _listed(a, b, torch.strided)


def images(a: Tensor, b: Tensor) -> Tensor:
    return nested.nested_tensor([a, b]).to_padded_tensor(0.0)


nested_listed = op(of_list, floats(2, 3), floats(4, 3), dynamic={"x0": {0: "m"}, "x1": {0: "n"}})
nested_listed_strided = op(of_list_strided, floats(2, 3), floats(4, 3), dynamic={"x0": {0: "m"}, "x1": {0: "n"}})
nested_two_images = op(
    images, floats(3, 2, 5), floats(3, 4, 3), dynamic={"x0": {1: "h0", 2: "w0"}, "x1": {1: "h1", 2: "w1"}}
)

# --- functions of nested tensors --------------------------------------------------------------------------------------


def arithmetic(nt: Any) -> Any:
    made = (2 - nt) / 3 + nt * torch.arange(3.0, dtype=nt.dtype) - torch.where(nt > 0, nt, nt.sin())
    made += 1
    return made.clamp(-1, 1).values(), F.gelu(nt).values(), (nt * nt.values().new_ones(nt.size(0), 1, 3)).values()


def reductions(nt: Any) -> Any:
    over_rows = nt.sum(1), nt.amax(1), nt.min(1).values, nt.argmax(1), (nt > 0).any(1), nt.prod(1, keepdim=True)
    return *over_rows, nt.mean((0, 1)), nt.sum(), nt.sum(-1).values(), nt.mean(-1, keepdim=True).values()


def products(nt: Any) -> Any:
    ones = nt.values().new_ones
    outer = nt.transpose(1, 2) @ nt
    return outer, (nt @ ones(3, 2)).values(), (nt @ ones(nt.size(0), 3, 2)).values()


def shapes(nt: Any) -> Any:
    heads = nt.unflatten(-1, [3, 1]).transpose(1, 2)
    joined = torch.cat([nt, nt * 2], -1).view(nt.size(0), -1, 2, 3).permute(0, 2, 1, 3)
    return heads.values(), joined.select(1, 1).values(), nt[..., :2].values(), nt.chunk(3, -1)[1].flatten(2).values()


def attended(nt: Any) -> Any:
    heads = nt.unflatten(-1, [2, 4]).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads * 2, heads).transpose(1, 2).flatten(-2).values()


def chunks_of_rows(values: Tensor, cuts: Tensor) -> Any:
    nt: Any = nested.nested_tensor_from_jagged(values, _offsets(values, cuts))
    first, second = nt.chunk(2)
    return first.sin().values(), second.offsets(), second.to_padded_tensor(-1.0)


def of_whole_rows(nt: Any) -> Any:
    copied = torch.zeros_like(nt)
    copied.copy_(F.layer_norm(nt, (nt.size(1), 3), eps=1e-3))
    return copied.values()


nested_chunks_of_rows = op(chunks_of_rows, floats(7, 3), ints(2, low=0, high=8), dynamic={"x0": {0: "total"}})
nested_layer_norm_of_rows = _row_cases(of_whole_rows)
nested_pointwise = _row_cases(arithmetic)
nested_reduced = _row_cases(reductions)
nested_mean_of_rows = op(_of_rows(lambda nt: nt.mean(1)), floats(7, 3), given([1, 4]))
nested_matmul = _row_cases(
    products,
    without_draws="products over no rows are left unset: findings/onnxruntime_transposed_product_over_nothing",
)
nested_rearranged = _row_cases(shapes)
nested_normalised = _row_cases(lambda nt: (F.layer_norm(nt, (3,)).values(), nt.log_softmax(-1).values()))
nested_attention = _row_cases(attended, features=8)


class Encoder(nn.Module):
    """A layer of a transformer, on sequences that are not padded."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.feed_forward = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))

    def forward(self, tokens: Tensor, cuts: Tensor) -> Tensor:
        x: Any = self.embedding(nested.nested_tensor_from_jagged(tokens, _offsets(tokens, cuts)))
        h = self.norm(x)
        heads = [layer(h).unflatten(-1, [2, 4]).transpose(1, 2) for layer in (self.query, self.key, self.value)]
        x = x + self.out(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(-2))
        padded: Tensor = (x + self.feed_forward(self.norm(x))).to_padded_tensor(0.0)
        return padded


nested_encoder = model(Encoder, ints(7, high=12), ints(2, low=0, high=8), dynamic={"x0": {0: "total"}})
