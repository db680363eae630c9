"""`Source`: what a model was exported from, that is the program, its example arguments, and the recorded graph."""

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
    #: Whether it was recorded in training mode; None if each module kept its own mode.
    training: bool | None = None
    axes: Axes = field(default_factory=Axes)
    #: The positions of the inputs among the arguments, if some inputs are marked lists or optionals.
    layout: Layout | None = None
    #: The recorded graph.
    recorded: Graph | None = None

    def inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Given]:
        """The inputs of the model among the arguments: tensors, marked lists of tensors, and marked tensors or None."""
        if self.layout is not None:
            return self.layout.inputs(args, kwargs)
        return [leaf for leaf in pytree.tree_leaves((tuple(args), dict(kwargs))) if isinstance(leaf, torch.Tensor)]

    @property
    def held_arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The example's arguments, with marked lists and optionals wrapped as single inputs."""
        return (self.args, self.kwargs) if self.layout is None else self.layout.arguments

    def with_inputs(self, inputs: Sequence[Given]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The example's arguments, with the inputs replaced by these."""
        remaining = iter(inputs)
        if self.layout is not None:
            return self.layout.filled(self.args, self.kwargs, remaining)
        leaves, spec = pytree.tree_flatten((self.args, dict(self.kwargs)))
        filled: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(
            [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec
        )
        return filled
