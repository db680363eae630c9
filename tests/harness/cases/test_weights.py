"""Weights for models: the same from the same seed, scaled, and fast to create."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from onnx_parity.harness.cases.model_weights import build_module


class Tower(nn.Module):
    """Thirty layers: anything that grows or shrinks by a quarter a layer would show a thousandfold."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(30):
            layers += [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.register_buffer("table", torch.arange(5.0))

    def forward(self, x: torch.Tensor) -> object:
        return self.layers(x)


def test_activations_neither_vanish_nor_explode() -> None:
    tower = build_module(Tower, {}, seed=0).eval()
    with torch.no_grad():
        out = tower(torch.randn(2, 16, 8, 8))
    assert 0.02 < out.std() < 50.0


def test_every_parameter_and_statistic_is_written_and_nothing_else() -> None:
    tower = build_module(Tower, {}, seed=0)
    for name, value in (*tower.named_parameters(), *tower.named_buffers()):
        if name.endswith("num_batches_tracked"):
            assert value == 0
        elif name == "table":
            assert value.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        else:
            assert value.isfinite().all()
            assert value.std() > 0.01, f"{name} is constant"
    norm = tower.get_submodule("layers.1")
    assert isinstance(norm.weight, torch.Tensor)
    assert isinstance(norm.running_var, torch.Tensor)
    assert 0.9 < norm.weight.mean() < 1.1
    assert norm.running_var.min() >= 0.75


def test_the_seed_decides() -> None:
    def weights(seed: int) -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in build_module(Tower, {}, seed).parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_what_a_constructor_draws_and_computes_is_of_the_seed_too() -> None:
    class Drawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("noise", torch.randn(3))
            self.register_buffer("filled", torch.empty(3).uniform_())
            self.layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2))

    before = torch.random.get_rng_state()
    one, same, other = (build_module(Drawing, {}, seed) for seed in (3, 3, 4))
    for name, buffer in one.named_buffers():
        assert torch.equal(buffer, same.get_buffer(name))
        assert not torch.equal(buffer, other.get_buffer(name))
    assert torch.equal(torch.random.get_rng_state(), before)
    layer = one.get_submodule("layer")
    assert isinstance(layer.weight, torch.Tensor)
    assert layer.weight.isfinite().all()


def test_no_two_rows_of_a_large_weight_are_alike() -> None:
    """The weight is longer than the tile that it is copied from."""
    linear = build_module(nn.Linear, {"in_features": 2048, "out_features": 1024}, seed=0)
    assert isinstance(linear.weight, torch.Tensor)
    assert linear.weight.unique(dim=0).shape[0] == 1024
    assert abs(float(linear.weight.detach().std()) * 2048**0.5 - 2**0.5) < 0.05


def test_recurrent_weights_keep_the_state_bounded() -> None:
    lstm = build_module(nn.LSTM, {"input_size": 8, "hidden_size": 8}, seed=0)
    with torch.no_grad():
        out, _ = lstm(torch.randn(50, 2, 8))
    assert 0.05 < out[-1].abs().mean() < 0.9


def test_a_large_weight_is_filled_with_fewer_draws_than_it_has_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = torch.Tensor.normal_

    def count(tensor: torch.Tensor, *args: float, **keywords: Any) -> torch.Tensor:
        drawn.append(tensor.numel())
        return draw(tensor, *args, **keywords)

    monkeypatch.setattr(torch.Tensor, "normal_", count)
    monkeypatch.setattr(torch.Tensor, "uniform_", count)
    layer = build_module(nn.Linear, {"in_features": 4096, "out_features": 4096}, seed=0)
    assert sum(drawn) < 2_000_000 < 4096 * 4096
    assert layer.get_parameter("weight").std() > 0.01


def test_a_factory_that_gives_no_module_is_refused() -> None:
    with pytest.raises(TypeError) as error:
        build_module(dict, {}, seed=0)
    assert str(error.value) == "<class 'dict'> gave a dict, but a model needs an nn.Module."


def test_what_a_constructor_computes_from_its_draws_is_the_same_each_time() -> None:
    def vectors() -> list[torch.Tensor]:
        normed = build_module(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)), {}, seed=0)
        return [buffer.clone() for buffer in normed.buffers()]

    first = vectors()
    scattered = [torch.full((8,), float("nan")) for _ in range(64)]
    del scattered
    assert len(first) == 2
    assert all(torch.equal(one, other) for one, other in zip(first, vectors(), strict=True))
