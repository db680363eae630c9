"""Programs that change their arguments: after an export, successful or not, the arguments are unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import onnx_parity

X = torch.linspace(-1, 1, 12).reshape(3, 4)


@dataclass
class Cache:
    """Keys of earlier tokens, as generation passes them from one call to the next."""

    keys: list[torch.Tensor] = field(default_factory=lambda: [torch.ones(5, 4)])
    seen: int = 5

    def update(self, x: torch.Tensor) -> torch.Tensor:
        self.keys[0] = torch.cat([self.keys[0], x])
        self.seen += x.shape[0]
        return self.keys[0]


@pytest.mark.parametrize("fails", [False, True])
def test_a_cache_argument_does_not_grow(fails: bool) -> None:
    cache = Cache()
    keys = cache.keys[0]

    def program(x: torch.Tensor, cache: Cache) -> torch.Tensor:
        result = cache.update(x).sum(0)
        if fails:
            raise ValueError("no good")
        return result

    if fails:
        with pytest.raises(onnx_parity.CaptureError, match="no good"):
            onnx_parity.export(program, (X, cache))
    else:
        exported = onnx_parity.export(program, (X, cache), verify=True)
        exported.verify()
    assert cache.seen == 5 and len(cache.keys) == 1 and cache.keys[0] is keys and keys.shape == (5, 4)


@pytest.mark.parametrize("fails", [False, True])
def test_lists_and_dicts_among_arguments_are_left_alone(fails: bool) -> None:
    items, named = [X], {"x": X}

    def program(items: list[Any], named: dict[str, Any], others: set[int]) -> torch.Tensor:
        items.append(items[0] + 1)
        named["y"] = named.pop("x") * 2
        others.add(3)
        if fails:
            raise ValueError("no good")
        result: torch.Tensor = items[1] + named["y"]
        return result

    others = {1}
    if fails:
        with pytest.raises(onnx_parity.CaptureError, match="no good"):
            onnx_parity.export(program, (items, named, others))
    else:
        onnx_parity.export(program, (items, named, others), verify=True)
    assert len(items) == 1 and items[0] is X and list(named) == ["x"] and named["x"] is X and others == {1}
