"""The positions between pixels at which an image is interpolated, which torch and runtimes round in their own ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of

__all__ = ["Moves"]

#: Positions are numbers of 32 bits, whatever the dtype of the image is.
_EPSILON = torch.finfo(torch.float32).eps
#: The operators that interpolate, and by what share of it a position is another one. The weights of a cubic
#: interpolation are sums of terms of up to 15, which cancel: they are rounded as those of positions further away.
_MOVED_BY = {
    "aten::upsample_linear1d": _EPSILON,
    "aten::upsample_bilinear2d": _EPSILON,
    "aten::upsample_trilinear3d": _EPSILON,
    "aten::upsample_bicubic2d": 4 * _EPSILON,
}


class Moves(msgspec.Struct, frozen=True):
    """Changes of positions by a unit in the last place, or this share of it."""

    seed: int
    share: float = 1.0

    def arguments(
        self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of an operator that interpolates, with other factors, which move all positions of an axis.

        Those of aligned corners follow from the sizes alone, and an axis that keeps its size may be copied.
        """
        schema = schema_of(func)
        share = self.share * _MOVED_BY.get(schema.name, 0.0)
        if not share or schema.overload_name:
            return args, kwargs
        given = {**dict(zip((each.name for each in schema.arguments), args, strict=False)), **kwargs}
        image, sizes, *_ = given.values()
        if given["align_corners"]:
            return args, kwargs
        before = image.shape[-len(sizes) :]
        names = [each.name for each in schema.arguments[-len(sizes) :]]
        for axis, (name, old, new) in enumerate(zip(names, before, sizes, strict=True)):
            factor = given.get(name) or new / old
            if old != new:
                sign = 1 if self.seed >> axis & 1 else -1
                given[name] = factor * (1 + sign * share)
        return (), given
