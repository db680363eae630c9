"""What a model was exported from: the program, its example arguments, and what was recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.graph.graph import Graph
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.request.marked_inputs import Given, Layout

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """What a model was exported from."""

    program: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: The mode that it was recorded in; None for that of each of its parts.
    training: bool | None = None
    axes: Axes = field(default_factory=Axes)
    #: Where its inputs are, where some of them are no tensors.
    layout: Layout | None = None
    #: What its operators were recorded as.
    recorded: Graph | None = None

    def inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Given]:
        """The inputs of the model among arguments: tensors, lists of them, None where that may be."""
        if self.layout is not None:
            return self.layout.inputs(args, kwargs)
        return [leaf for leaf in pytree.tree_leaves((tuple(args), dict(kwargs))) if isinstance(leaf, torch.Tensor)]

    @property
    def held_arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The example's arguments, with leaves for inputs that are no tensors."""
        return (self.args, self.kwargs) if self.layout is None else self.layout.arguments

    def with_inputs(self, inputs: Sequence[Given]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The example's arguments, with these inputs."""
        remaining = iter(inputs)
        if self.layout is not None:
            return self.layout.filled(self.args, self.kwargs, remaining)
        leaves, spec = pytree.tree_flatten((self.args, dict(self.kwargs)))
        filled: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(
            [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec
        )
        return filled
