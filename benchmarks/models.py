"""The models that are exported, with their example inputs. Nothing is built before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Model:
    """A model, how to build it, and an input of it whose first dimension is the batch."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    #: A single operator is judged by itself, not in the mean over the models.
    one_operator: bool = False
    #: Of gigabytes: measured by `python -m benchmarks.large`, and not with the others.
    large: bool = False

    def make(self, batch: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
        torch.manual_seed(0)
        return self.build().eval(), (torch.rand(batch, *self.shape),)


def _vision(name: str) -> Model:
    def build() -> nn.Module:
        from model_zoo.torchvision_import import torchvision

        model = torchvision.models.get_model(name, weights=None)
        assert isinstance(model, nn.Module)
        return model

    return Model(name, build, shape=(3, 224, 224))


def _lstm() -> nn.Module:
    return nn.LSTM(128, 256, num_layers=2, bidirectional=True, batch_first=True)


def _wide() -> nn.Module:
    """3.2 GB of weights, more than protobuf holds."""
    layers = [module for _ in range(12) for module in (nn.Linear(8192, 8192, bias=False), nn.ReLU())]
    return nn.Sequential(*layers)


MODELS = {
    model.name: model
    for model in (
        *(_vision(name) for name in ("alexnet", "resnet18", "resnet50", "vgg16", "densenet121")),
        Model("lstm", _lstm, shape=(16, 128)),
        Model("elu", nn.ELU, shape=(3,), one_operator=True),
        Model("wide", _wide, shape=(8192,), large=True),
    )
}
