"""Random numbers, and layers that draw them: what holds for every draw."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import BATCH, FLOATS, floats, numbers, op


def times_zero(x: torch.Tensor, f: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return f(x) * 0 + x


_DRAWN_LIKE = [torch.rand_like, torch.randn_like]

rand = op(lambda x: (torch.rand(3, 4) * 0 + x, torch.rand(50) < 1, torch.rand(50) >= 0), floats(3, 4))
randn = op(lambda x: (torch.randn(3, 4) * 0 + x, torch.randn(50).abs() < 30), floats(3, 4))
#: Libraries give a generator, which may be None.
without_generator = op(
    lambda x: (
        torch.randn(x.shape, generator=None, dtype=x.dtype) * 0 + x,
        torch.rand(x.shape, generator=None) < 1,
        torch.randint(3, x.shape, generator=None) < 3,
        torch.randint(2, 3, x.shape, generator=None),
    ),
    floats(3, 4),
    dynamic=BATCH,
)
normal_spread = op(
    lambda x: (
        torch.randn(4000).std().sub(1).abs() < 0.2,
        torch.randn(4000).mean().abs() < 0.2,
        torch.randn(4000, dtype=torch.float64).std().sub(1).abs() < 0.2,
        torch.normal(2.0, 3.0, (4000,)).sub(2).div(3).std().sub(1).abs() < 0.2,
        torch.rand(4000).mean().sub(0.5).abs() < 0.1,
        x,
    ),
    floats(1),
)


def exponential(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).exponential_(2.0).log()


def geometric(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).geometric_(0.3)


def cauchy(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).cauchy_(1.0, 2.0)


def log_normal(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).log_normal_(0.5, 0.25)


_DISTRIBUTIONS = [exponential, geometric, cauchy, log_normal]
distributions = op(times_zero, floats(3, 4), f=_DISTRIBUTIONS, dynamic=BATCH)
distributions_dtypes = op(times_zero, floats(3, 4), f=_DISTRIBUTIONS, dtypes=FLOATS)
distributions_spread = op(
    lambda x: (
        torch.empty(4000).exponential_(2.0).mean().sub(0.5).abs() < 0.1,
        (torch.empty(4000).exponential_(2.0) < 0.3466).float().mean().sub(0.5).abs() < 0.1,
        torch.empty(4000, dtype=torch.int64).geometric_(0.3).double().mean().sub(1 / 0.3).abs() < 0.4,
        torch.empty(4000).geometric_(0.3) >= 1,
        (torch.empty(4000).cauchy_(1.0, 2.0) < 1).float().mean().sub(0.5).abs() < 0.1,
        (torch.empty(4000).cauchy_(1.0, 2.0).sub(1).abs() < 2).float().mean().sub(0.5).abs() < 0.1,
        torch.empty(4000, dtype=torch.float64).log_normal_(0.5, 0.25).log().mean().sub(0.5).abs() < 0.1,
        torch.empty(4000).log_normal_(0.5, 0.25).log().std().sub(0.25).abs() < 0.1,
        x,
    ),
    floats(1),
)
_WEIGHTS = torch.tensor([10.0] + [1.0] * 10)
#: How often the first place is drawn, whose weight is half of all.
multinomial_spread = op(
    lambda x: (
        (torch.multinomial(_WEIGHTS, 1000, replacement=True) == 0).float().mean().sub(0.5).abs() < 0.1,
        (torch.multinomial(_WEIGHTS.expand(1000, 11), 2)[:, 0] == 0).float().mean().sub(0.5).abs() < 0.1,
        x,
    ),
    floats(1),
)
gumbel_softmax = op(
    lambda x, hard: F.gumbel_softmax(x, hard=hard).sum(-1).round(), floats(3, 4), hard=[False, True], dynamic=BATCH
)
rand_like = op(times_zero, floats(3, 4), f=_DRAWN_LIKE, dynamic=BATCH)
rand_like_dtypes = op(times_zero, floats(3, 4), f=_DRAWN_LIKE, dtypes=FLOATS)
rand_dtype = op(lambda x, f: f(x, dtype=torch.float64).abs() * 0, floats(3, 4), f=_DRAWN_LIKE)
randint = op(lambda x: (torch.randint(3, 4, (2, 3)), torch.randint(1, (5,)), torch.randint(9, (50,)) < 9), floats(1))
randint_like = op(
    lambda x: (torch.randint_like(x, 3, 4), torch.randint_like(x, 9) < 9),
    numbers(3, 4),
    dtypes=[torch.float32, torch.int64],
)
randperm = op(lambda x: x[torch.randperm(x.shape[0])].sort(0)[0], floats(5, 3), dynamic=BATCH)
randperm_draws = op(
    lambda x: (torch.randperm(50).sort()[0], (torch.randperm(50) == torch.arange(50)).all(), torch.randperm(1)),
    floats(1),
)
randperm_dtypes = op(
    lambda x, dtype: torch.randperm(5, dtype=dtype).sort()[0], floats(1), dtype=[torch.int32, torch.float32]
)
normal = op(
    lambda x: (torch.normal(x, torch.zeros_like(x)), torch.normal(x, 0.0), torch.normal(2.0, x * 0)), floats(3, 4)
)
uniform_spread = op(
    lambda x: (
        torch.empty(4000).uniform_().mean().sub(0.5).abs() < 0.1,
        torch.empty(4000).uniform_(to=3).mean().sub(1.5).abs() < 0.3,
        torch.empty(4000).uniform_(-1).mean().abs() < 0.1,
        x,
    ),
    floats(1),
)
uniform_ = op(lambda x: ((x * 1).uniform_(2, 2), (x * 1).uniform_(0, 1) <= 1), floats(3, 4))
normal_ = op(lambda x: (x * 1).normal_(3, 0), floats(3, 4))
bernoulli = op(
    lambda x: (torch.bernoulli(torch.zeros_like(x)), torch.bernoulli(x * 0 + 1)), floats(3, 4), dynamic=BATCH
)
bernoulli_p = op(lambda x, p: torch.bernoulli(x, p=p), floats(3, 4), p=[0.0, 1.0], dtypes=FLOATS)
dropout_eval = op(F.dropout, floats(3, 4), p=0.5, training=False)
dropout_certain = op(F.dropout, floats(3, 4), p=[0.0, 1.0], training=True, dtypes=FLOATS)
#: Other exporters silently omit it in training. The elements are equal here: it scales some, and the rest become 0.
dropout = op(
    lambda x, p: F.dropout(x * 0 + 3, p, training=True).mul((1 - p) / 3).round().sub(0.5).abs(),
    floats(30, 40),
    p=[0.25, 0.5],
    dynamic=BATCH,
    without_nan="dropped numbers are counted",
)
dropout_draws = op(
    lambda x: (F.dropout(x.new_ones(30, 40), 0.5) == 0).any() & (F.dropout(x.new_ones(30, 40), 0.5) == 2).any(),
    floats(1),
)
feature_dropout = op(
    lambda x, f: f(x * 0 + 3, 0.5, training=True).mul(1 / 6).round().std((-1, -2)),
    floats(3, 4, 5, 6),
    f=[F.dropout2d, F.dropout3d],
)
alpha_dropout = op(F.alpha_dropout, floats(3, 4), p=0.0, training=True)
rrelu_drawn = op(
    lambda x: F.rrelu(x, 0.25, 0.25, training=True),
    floats(3, 4),
    dtypes=[torch.float32, torch.float64, torch.bfloat16],
)
