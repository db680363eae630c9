"""The models that are exported, with their example inputs. They are built on demand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn


class ModelGroup(StrEnum):
    """The group of a model. Only networks are part of the means."""

    NETWORK = "network"
    OPERATOR = "one operator"
    SCRIPT = "scripted control flow"


@dataclass(frozen=True)
class Example:
    """An example of an input, without its first axis, which is the batch."""

    shape: tuple[int, ...]
    #: The number of tokens from which it is drawn; 0 if it consists of floats.
    tokens: int = 0

    def make(self, batch: int) -> Tensor:
        sizes = (batch, *self.shape)
        return torch.randint(self.tokens, sizes) if self.tokens else torch.rand(sizes)


@dataclass(frozen=True)
class Model:
    """A model: how to build it, and an example input whose first dimension is the batch."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    kind: ModelGroup = ModelGroup.NETWORK
    #: Whether it has gigabytes. Such models are only measured by `python -m benchmarks.large`.
    large: bool = False
    #: The number of tokens from which the input is drawn; 0 if it consists of floats.
    tokens: int = 0
    #: The inputs after the first.
    further: tuple[Example, ...] = ()

    def make(self, batch: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
        torch.manual_seed(0)
        examples = (Example(self.shape, self.tokens), *self.further)
        model = self.build().eval()
        if not self.large:
            _train_biases(model)
        return model, tuple(example.make(batch) for example in examples)


def _train_biases(model: nn.Module) -> None:
    """Give weights that are zeros before training other numbers: torch.onnx leaves out the sums with such biases."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and not parameter.any():
                parameter.normal_(std=0.02)


def vision(
    name: str, kind: ModelGroup = ModelGroup.NETWORK, shape: tuple[int, ...] = (3, 224, 224), **options: object
) -> Model:
    def build() -> nn.Module:
        from onnx_parity.model_zoo.torchvision_import import torchvision

        model = torchvision.models.get_model(name, weights=None, **options)
        assert isinstance(model, nn.Module)
        return model

    return Model(name, build, shape, kind)


def _lstm() -> nn.Module:
    return nn.LSTM(128, 256, num_layers=2, bidirectional=True, batch_first=True)


class _Branches(nn.Module):
    """Each layer takes one of two branches, depending on its input values."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x)) if bool(x.sum() > 0) else torch.tanh(layer(x))
        return x


class _Loop(nn.Module):
    """Layers that are repeated until the values are small."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        steps = 0
        while bool(x.abs().sum() > 1) and steps < 100:
            x = torch.tanh(self.other(torch.relu(self.one(x)))) * 0.5
            steps += 1
        return x + steps


def _scripted(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        # torch.jit.script warns that it is deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: nn.Module = torch.jit.script(module)
    return compiled


def _branches() -> nn.Module:
    return _scripted(_Branches())


def _loop() -> nn.Module:
    return _scripted(_Loop())


def _wide() -> nn.Module:
    """3.2 GB of weights, which is too large for protobuf."""
    layers = [module for _ in range(12) for module in (nn.Linear(8192, 8192, bias=False), nn.ReLU())]
    return nn.Sequential(*layers)


def _small_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(4, 2),
    )


MODELS = {
    model.name: model
    for model in (
        *(vision(name) for name in ("alexnet", "resnet18", "resnet50", "vgg16", "densenet121")),
        Model("lstm", _lstm, shape=(16, 128)),
        Model("elu", nn.ELU, shape=(3,), kind=ModelGroup.OPERATOR),
        Model("branches", _branches, shape=(64,), kind=ModelGroup.SCRIPT),
        Model("loop", _loop, shape=(64,), kind=ModelGroup.SCRIPT),
        Model("wide", _wide, shape=(8192,), large=True),
    )
}

#: One layer of each kind. Exporting it loads all modules that the other models need. It is not measured itself.
SMALL_NETWORK = Model("small network", _small_network, shape=(3, 8, 8))
