"""Programs that do something else where a matrix is transposed in memory, by the method of torch that tells them."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["IMAGES", "LAST", "OF_LAYOUTS", "TRANSPOSED", "written_images"]

TRANSPOSED = torch.arange(12.0).reshape(3, 4).t() / 7 - 0.6
IMAGES = torch.arange(48.0).reshape(2, 3, 4, 2)
LAST = IMAGES.contiguous(memory_format=torch.channels_last)
_Program = Callable[[torch.Tensor], torch.Tensor]


def written_images(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.to(memory_format=torch.channels_last).zero_()
    return y


def _writes(made: Callable[[torch.Tensor], torch.Tensor]) -> _Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        made(y).zero_()
        return y

    return program


def _catches(viewed: Callable[[torch.Tensor], torch.Tensor]) -> _Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return viewed(x.t()) * 2
        except RuntimeError:
            return x.t().flatten() * 3

    return program


#: By what is patched.
OF_LAYOUTS: dict[str, _Program] = {
    "torch.Tensor.is_contiguous": lambda x: x * 2 if x.is_contiguous() else x * 3,
    "torch.Tensor.stride": lambda x: x * x.stride(0),
    "torch.Tensor.as_strided": lambda x: x.as_strided((2, 3), (1, 2)),
    "torch.Tensor.as_strided_scatter": lambda x: x.as_strided_scatter(torch.ones(2, 3), (2, 3), (1, 2)),
    "torch.as_strided": lambda x: torch.as_strided(x, (2, 3), (1, 2)),
    "torch.as_strided_copy": lambda x: torch.as_strided_copy(x, (2, 3), (1, 2)),
    "torch.as_strided_scatter": lambda x: torch.as_strided_scatter(x, torch.ones(2, 3), (2, 3), (1, 2)),
    "torch.Tensor.contiguous": _writes(lambda y: y.contiguous()),
    "torch.Tensor.reshape": _writes(lambda y: y.reshape(12)),
    "torch.Tensor.reshape_as": _writes(lambda y: y.reshape_as(torch.ones(12))),
    "torch.Tensor.flatten": _writes(lambda y: y.flatten()),
    "torch.Tensor.ravel": _writes(lambda y: y.ravel()),
    "torch.reshape": _writes(lambda y: torch.reshape(y, (12,))),
    "torch.flatten": _writes(lambda y: torch.flatten(y, 0)),
    "torch.ravel": _writes(lambda y: torch.ravel(input=y)),
    "torch.Tensor.view": _catches(lambda x: x.view(12)),
    "torch.Tensor.view_as": _catches(lambda x: x.view_as(torch.ones(12))),
}
