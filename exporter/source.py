"""`Source`: what a model was exported from, that is the program, its example arguments, and the recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.containers import has_names, named_leaves
from onnx_parity.exporter.graph.graph import Graph, Value
from onnx_parity.exporter.recording.fakes.input_layouts import laid_out_like
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.request.marked_inputs import Given, Layout
from onnx_parity.exporter.request.size_expressions import AxisSize, size_named
from onnx_parity.exporter.torch_inside import pytree

__all__ = ["Source"]


def _laid_out_like(example: torch.Tensor, given: Given) -> Given:
    return laid_out_like(example, given) if isinstance(given, torch.Tensor) else given


class Source(msgspec.Struct, frozen=True):
    """What a model was exported from."""

    program: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: Whether it was recorded in training mode; None if each module kept its own mode.
    training: bool | None = None
    axes: Axes = msgspec.field(default_factory=Axes)
    #: The positions of the inputs among the arguments, if some inputs are marked lists or optionals.
    layout: Layout | None = None
    #: The recorded graph.
    recorded: Graph | None = None
    #: The positions of the inputs whose values decided what was recorded.
    looked_at: Sequence[int] = ()
    #: The truth values, in the recorded graph, of branches on values of which the model has both sides.
    conditions: Sequence[Value] = ()
    #: The names of the weights, and of what else, that the program writes to.
    written: frozenset[str] = frozenset()

    def inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Given]:
        """The inputs of the model among the arguments: tensors, marked lists of tensors, and marked tensors or None."""
        if self.layout is not None:
            return self.layout.inputs(args, kwargs)
        return [leaf for leaf in pytree.tree_leaves((tuple(args), dict(kwargs))) if isinstance(leaf, torch.Tensor)]

    def inputs_by_place(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Given]:
        """The same, of arguments to whose objects the program may have added others."""
        if self.layout is not None or not has_names((self.args, self.kwargs)):
            return self.inputs(args, kwargs)
        now = dict(named_leaves((tuple(args), dict(kwargs))))
        example = named_leaves((tuple(self.args), dict(self.kwargs)))
        return [now.get(path) for path, leaf in example if isinstance(leaf, torch.Tensor)]

    @property
    def held_arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The example's arguments, with marked lists and optionals wrapped as single inputs."""
        return (self.args, self.kwargs) if self.layout is None else self.layout.arguments

    def with_inputs(
        self, inputs: Sequence[Given], sizes: Mapping[str, int] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The example's arguments, with the inputs replaced by these, and numbers that are sizes by those sizes."""
        remaining = iter(inputs)
        if self.layout is not None:
            return self.layout.filled(self.args, self.kwargs, remaining)
        leaves, spec = pytree.tree_flatten((self.args, dict(self.kwargs)))
        filled: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(
            [
                _laid_out_like(leaf, next(remaining))
                if isinstance(leaf, torch.Tensor)
                else AxisSize.of(size_named(leaf.axis, sizes), leaf.axis)
                if sizes is not None and isinstance(leaf, AxisSize)
                else leaf
                for leaf in leaves
            ],
            spec,
        )
        return filled
