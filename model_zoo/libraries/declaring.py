"""The vocabulary of these files: `library`, which declares rows of models, and `made`, which makes an object of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from onnx_parity.harness.case import DynamicAxes
from onnx_parity.harness.zoo import Built, Source, every

__all__ = ["BATCH", "IMAGES", "Calling", "library", "made", "named"]

BATCH: DynamicAxes = {"x": {0: "batch"}}
IMAGES: DynamicAxes = {"x": {0: "batch", 2: "height", 3: "width"}}


def library(package: str, rows: Mapping[str, Callable[[], Built]]) -> Source:
    """Declare a case for each row, whose function is called where the package is installed."""
    frame = sys._getframe(1)
    source = every(package, lambda: [*rows], lambda name: rows[name](), extra=package, dynamic=BATCH)
    return replace(source, file=Path(frame.f_code.co_filename), line=frame.f_lineno)


def named(path: str) -> Any:
    """What `package.module:name` says."""
    # Some of these libraries import torchvision, which has to be imported in a certain way beside some builds of torch.
    import_module("onnx_parity.model_zoo.torchvision_import")
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def made(path: str, *args: Any, **keywords: Any) -> Any:
    """What the class or function of this name returns."""
    return named(path)(*args, **keywords)


class Calling(nn.Module):
    """A function of tensors, with the modules whose weights it reads."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function, self.modules_of_it = function, nn.ModuleList(modules)

    def forward(self, *tensors: Any) -> Any:
        return self.function(*self.modules_of_it, *tensors)
