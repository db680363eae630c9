"""Weights for models: seeded, fast to make, and scaled so that activations neither vanish nor explode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch.overrides import TorchFunctionMode

from onnx_parity.exporter.arrays import in_width
from onnx_parity.harness.cases.generators import seeded

#: Up to this number of elements, a constructor's random fill takes no measurable time.
_FEW = 1 << 14

#: A prime, so that rows of a tiled weight never repeat. Two equal rows would hide a wrong transposition.
_TILE = 1_000_003

_RANDOM_FILLS = frozenset(
    {
        torch.Tensor.normal_, torch.Tensor.uniform_, torch.nn.init.kaiming_normal_, torch.nn.init.kaiming_uniform_,
        torch.nn.init.normal_, torch.nn.init.orthogonal_, torch.nn.init.trunc_normal_, torch.nn.init.uniform_,
        torch.nn.init.xavier_normal_, torch.nn.init.xavier_uniform_,
    }
)  # fmt: skip


class _WithoutRandomFills(TorchFunctionMode):
    """Leaves large parameters as they are allocated. `fill` writes them later, and VGG-16's own fill takes longer than
    its export.

    Only random fills are skipped. Buffers that a constructor computes are not, such as a table of positions, or results
    of spectral norm.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in _RANDOM_FILLS:
            tensor = args[0] if args else kwargs["tensor"]
            if isinstance(tensor, torch.nn.Parameter) and tensor.numel() > _FEW:
                return tensor
        return func(*args, **kwargs)


def build_module(factory: Callable[..., object], keywords: Mapping[str, object], seed: int) -> torch.nn.Module:
    """`factory(**keywords)` with seeded weights."""
    with _WithoutRandomFills(), seeded(seed):
        module = factory(**keywords)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{factory!r} gave a {type(module).__name__}, but a model needs an nn.Module.")
    fill(module, seed)
    return module


def convert(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Give the weights of a module another dtype, and complex ones the complex dtype of that width."""
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = in_width(tensor.data, dtype)


@torch.no_grad()
def fill(module: torch.nn.Module, seed: int) -> None:
    """Write every floating parameter and batch-norm statistic from one seeded random stream."""
    generator = torch.Generator().manual_seed(seed)
    parameters = module.named_parameters()
    floating = [(name, each) for name, each in parameters if each.is_floating_point() and each.numel()]
    tile: torch.Tensor | None = None
    offset = 0
    for name, parameter in floating:
        if parameter.dim() < 2:
            _fill_vector(name, parameter, generator)
            continue
        if tile is None:
            needed = sum(each.numel() for _, each in floating if each.dim() >= 2)
            tile = torch.empty(min(needed, _TILE), device="cpu").normal_(generator=generator)
        _fill_from_tile(parameter, tile, offset)
        offset = (offset + parameter.numel()) % _TILE
        parameter.mul_(_gain(name) / (parameter[0].numel() ** 0.5))
    for name, buffer in module.named_buffers():
        # With the defaults of 0 and 1, an exporter that ignores the statistics would go unnoticed.
        if name.endswith("running_mean"):
            buffer.copy_(_empty_on_cpu(buffer).normal_(0.0, 0.1, generator=generator))
        elif name.endswith("running_var"):
            buffer.copy_(_empty_on_cpu(buffer).uniform_(0.75, 1.5, generator=generator))


def _fill_vector(name: str, parameter: torch.Tensor, generator: torch.Generator) -> None:
    parameter.copy_(_empty_on_cpu(parameter).normal_(0.0, 0.1, generator=generator))
    if name.endswith("weight"):
        parameter.add_(1.0)  # A norm's scale: a weight of one dimension multiplies, all others add.


def _empty_on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """An empty tensor of the same shape and dtype on the CPU, where the generator draws, so that a module on a GPU gets
    the same numbers."""
    return torch.empty_like(tensor, device="cpu")


def _fill_from_tile(parameter: torch.Tensor, tile: torch.Tensor, offset: int) -> None:
    """Fill a parameter with copies of the tile, which takes a tenth of the time to draw 138 million numbers."""
    flat = parameter.view(-1)
    start = 0
    while start < flat.numel():
        run = min(flat.numel() - start, _TILE - offset)
        flat[start : start + run].copy_(tile[offset : offset + run])
        start += run
        offset = (offset + run) % _TILE


def _gain(name: str) -> float:
    """He's gain for layers before rectifiers; less than 1 for recurrent weights, so that the state does not grow."""
    return 0.7 if "weight_hh" in name or "weight_ih" in name else 2.0**0.5
