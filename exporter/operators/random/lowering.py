"""Random numbers, and dropout in training mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.recording.fakes.pointwise import floats, pointwise
from onnx_parity.exporter.registry.in_place import DYNAMIC, DYNAMIC_HALVES, copy_back
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import instead_of, named
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.this_thread import recorder_here


@lowering("aten::native_dropout")
def native_dropout(g: Graph, input: Value, p: float, train: bool | None) -> tuple[Value, Value | None]:
    if train is False or p == 0:
        return input, g.full(g.out.shape, True, torch.bool)
    if p == 1:
        return g.op("Mul", input, 0), g.full(g.out.shape, False, torch.bool)
    if g.has_training_dropout and not g.is_used(1):
        return g.dropout(input, p), None
    kept = g.op("Not", g.less(g.uniform(g.out.shape, torch.float32), g.const(p, torch.float32)))
    return g.op("Mul", input, g.op("Mul", g.cast(kept, input.dtype), 1 / (1 - p))), kept


@lowering("aten::bernoulli")
def bernoulli(g: Graph, self: Value, p: float | Value | None = None) -> Value:
    """1 with probability p, else 0; without p, the input has the probabilities"""
    sample = g.uniform(g.out.shape, torch.float32)
    [chance] = g.promote(self if p is None else p, dtype=torch.float32)
    return g.cast(g.less(sample, chance), g.out.dtype)


@lowering("aten::rand", "aten::rand_like")
def rand(g: Graph, self: Value | None = None, size: object = None, dtype: object = None) -> Value:
    return g.cast(g.uniform(g.out.shape, _random_dtype(g)), g.out.dtype)


@lowering(
    "aten::randn", "aten::randn_like", "aten::normal_functional",
    "aten::normal.float_float", "aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor",
)  # fmt: skip
def randn(
    g: Graph,
    self: Value | None = None,
    size: object = None,
    mean: Operand = 0,
    std: Operand = 1,
    dtype: object = None,
) -> Value:
    sample = g.cast(g.normal(g.out.shape, _random_dtype(g)), g.out.dtype)
    scaled = sample if std == 1 else g.op("Mul", *g.promote(sample, std, dtype=g.out.dtype))
    return scaled if mean == 0 else g.op("Add", *g.promote(scaled, mean, dtype=g.out.dtype))


@lowering("aten::uniform")
def uniform(g: Graph, self: Value, to: float = 1, **bounds: float) -> Value:
    """Between `from`, which cannot be the name of a parameter in Python, and `to`"""
    low = bounds.get("from", 0.0)
    sample = g.cast(g.uniform(g.out.shape, _random_dtype(g)), g.out.dtype)
    return g.op("Add", g.op("Mul", sample, to - low), low)


@lowering("aten::exponential")
def exponential(g: Graph, self: Value, lambd: float = 1) -> Value:
    """-log(u) / lambd, which is neither 0 nor infinite because u is in (0, 1): programs take its logarithm"""
    draws = g.cast(g.op("Div", g.op("Neg", g.op("Log", _never_zero(g))), lambd), g.out.dtype)
    return g.extreme("Max", draws, g.const(torch.finfo(draws.dtype).smallest_normal, draws.dtype))


@lowering("aten::geometric")
def geometric(g: Graph, self: Value, p: float) -> Value:
    """ceil(log(u) / log(1 - p)): the number of the first draw that succeeds, where each does with probability p"""
    if not 0 < p < 1:
        g.unsupported(f"geometric_ draws with a probability between 0 and 1, and p is {p}")
    draws = g.op("Ceil", g.op("Div", g.op("Log", _never_zero(g)), math.log1p(-p)))
    return g.cast(draws, g.out.dtype)


@lowering("aten::cauchy")
def cauchy(g: Graph, self: Value, median: float = 0, sigma: float = 1) -> Value:
    """median + sigma * tan(pi * (u - 0.5))"""
    angle = g.op("Mul", g.op("Sub", _never_zero(g), 0.5), math.pi)
    return g.cast(g.op("Add", g.op("Mul", g.elementary("Tan", angle), sigma), median), g.out.dtype)


@lowering("aten::log_normal")
def log_normal(g: Graph, self: Value, mean: float = 1, std: float = 2) -> Value:
    sample = g.normal(g.out.shape, _random_dtype(g))
    return g.cast(g.op("Exp", g.op("Add", g.op("Mul", sample, std), mean)), g.out.dtype)


@lowering("aten::randint", "aten::randint.low", "aten::randint_like", "aten::randint_like.low_dtype")
def randint(
    g: Graph, high: int, low: int = 0, self: Value | None = None, size: object = None, dtype: object = None
) -> Value:
    """floor(low + u * (high - low)) where u is random in [0, 1)"""
    sample = g.uniform(g.out.shape, torch.float64)
    scaled = g.op("Add", g.op("Mul", sample, g.scalar(high - low, torch.float64)), g.scalar(low, torch.float64))
    return g.cast(g.op("Floor", scaled), g.out.dtype)


@lowering("aten::multinomial")
def multinomial(g: Graph, self: Value, num_samples: int, replacement: bool = False) -> Value:
    """Places drawn with these weights: those of the greatest log(weight) + noise, with noise of a Gumbel distribution.

    onnxruntime has no kernel for the Multinomial of opset 22, which besides does not draw without replacement.
    """
    logits = g.op("Log", g.cast(self, torch.float32))
    if not replacement:
        chances = g.op("Add", logits, _gumbel(g, self.sizes))
        return g.top_k(chances, num_samples, self.rank - 1, largest=True)[1]
    sizes = [*self.sizes[:-1], num_samples, self.sizes[-1]]
    chances = g.op("Add", g.unsqueeze(logits, [self.rank - 1]), _gumbel(g, sizes))
    return g.squeeze(g.top_k(chances, 1, self.rank, largest=True)[1], [self.rank])


@lowering("aten::randperm")
def randperm(g: Graph, n: Size, dtype: torch.dtype | None = None) -> Value:
    """The order of random numbers"""
    draws = g.uniform([n], torch.float64)
    return g.cast(g.top_k(draws, n, 0, largest=True)[1], g.out.dtype)


def _gumbel(g: Graph, sizes: Sequence[Size]) -> Value:
    """-log(-log(u)) for u that is random in [0, 1)"""
    return g.op("Neg", g.op("Log", g.op("Neg", g.op("Log", g.uniform(sizes, torch.float32)))))


def _never_zero(g: Graph) -> Value:
    """Random numbers in (0, 1)"""
    dtype = _random_dtype(g)
    # Half of the least random number that is not 0.
    least = 2.0**-54 if dtype is torch.float64 else 2.0**-25
    return g.extreme("Max", g.uniform(g.out.shape, dtype), g.const(least, dtype))


def _random_dtype(g: Graph) -> torch.dtype:
    """The dtype of the random numbers, before they are cast: runtimes have float32 and float64."""
    return torch.float64 if g.out.dtype is torch.float64 else torch.float32


# --- what is recorded instead -----------------------------------------------------------------------------------------


copy_back("exponential_", "geometric_", to=DYNAMIC)
copy_back("cauchy_", "log_normal_", to=DYNAMIC_HALVES)
pointwise(floats, "rand_like randn_like")


@instead_of(
    "aten::rand.generator", "aten::randn.generator", "aten::randint.generator", "aten::randint.low_generator",
    "aten::randperm.generator",
    gives_operator=True,
    why="torch does not say what the result looks like for dynamic sizes",
)  # fmt: skip
def without_generator(op: OpOverload, *args: Any, generator: Any = None, **options: Any) -> Any:
    """The same without a generator, which the model does not have."""
    if generator is not None:
        recorder_here().random_numbers.note_generator(op, generator)
    return named(op.name().replace(".generator", "").replace("low_generator", "low"))(*args, **options)


@instead_of("aten::normal_", where=DYNAMIC_HALVES.include, why=DYNAMIC_HALVES.why)
def normal_(self: torch.Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    return self.copy_(torch.ops.aten.normal_functional.default(self, mean, std, generator=generator))


@instead_of("aten::dropout", why="torch's decomposition copies what is not dropped, and its kernel does not")
def dropout(input: torch.Tensor, p: float, train: bool) -> Any:
    return NotImplemented if train and p != 0 else input  # Later writes to one of them are seen in the other.
