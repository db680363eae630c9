"""`export` and its two halves: `capture_program`, which is done once, and `Capture.lower`, once an opset."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, BinaryIO

import torch
from torch._decomp import _core_aten_decompositions_post_autograd
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from exporter.arguments import (
    by_parameter,
    checked_opset,
    checked_program,
    input_names_for,
    output_names_for,
    parameter_names,
    refuse_unknown_keywords,
    refuse_unreadable,
    signature_of,
    split_args,
    trains,
)
from exporter.axes import Axes, DynamicAxes, DynamicShapes, axes_of_program
from exporter.capture.copies import COPIES
from exporter.capture.exported import ExportedModule
from exporter.capture.graph import Graph, operator_name
from exporter.capture.origin import nearest_user_place
from exporter.capture.strided import STRIDED
from exporter.capture.trace import Traced, trace, weights_of
from exporter.errors import ArgumentError
from exporter.lowering import families  # noqa: F401  (registers the lowerings)
from exporter.lowering.lower import Names, lower
from exporter.lowering.registry import is_lowered
from exporter.passes.fold import fold_constants
from exporter.passes.fuse import fuse_batch_norm
from exporter.passes.prune import list_initializers_as_inputs, remove_unused
from exporter.program import ONNXProgram
from exporter.show import printed

__all__ = ["Capture", "DroppedWriteWarning", "capture_program", "export"]

Program = Callable[..., Any] | torch.export.ExportedProgram


class DroppedWriteWarning(UserWarning):
    """The program writes to its buffers or inputs, and the exported model does not return the new values."""


class Capture:
    """A captured program: independent of any opset, to be lowered to as many as wanted."""

    def __init__(self, traced: Traced, input_names: list[str], output_names: list[str], axes: Axes) -> None:
        self.graph: Graph = traced.graph
        self._traced = traced
        self._input_names = input_names
        self._output_names = output_names
        self._axes = axes

    @property
    def operators(self) -> tuple[str, ...]:
        """The ATen operators of the program, each once: `aten::elu`."""
        return tuple(dict.fromkeys(operator_name(node.op) for node in self.graph.live_nodes()))

    def lower(self, opset_version: int | None = None, *, do_constant_folding: bool = True) -> ONNXProgram:
        """The ONNX program at an opset. Raises `UnsupportedOperatorsError` listing all that cannot be said there."""
        opset = checked_opset(opset_version)
        model = lower(self.graph, opset, Names(self._input_names, self._output_names, self._axes.outputs))
        if do_constant_folding:
            fold_constants(model)
            fuse_batch_norm(model)
        remove_unused(model)
        if model.ir_version < 4:
            list_initializers_as_inputs(model)
        return ONNXProgram(model, self._traced.returned, opset)


def capture_program(
    model: Program,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: DynamicAxes | None = None,
    dynamic_shapes: DynamicShapes | None = None,
    training: object = False,
    strict: bool = False,
) -> Capture:
    """Record what `model(*args, **kwargs)` does, without computing it."""
    if isinstance(model, torch.export.ExportedProgram):
        model, args, kwargs = _callable(model, args, kwargs, training)
    checked_program(model)
    positional, named = split_args(args, kwargs)
    signature = signature_of(model)
    refuse_unknown_keywords(args, named, signature)
    arguments = by_parameter(parameter_names(signature), positional, named)
    refuse_unreadable(arguments)
    names = input_names_for(arguments, input_names, len(weights_of(model)) if input_names else 0)
    tensors = [leaf for leaf in pytree.tree_leaves((positional, named)) if isinstance(leaf, torch.Tensor)]
    inputs = dict(zip(names, tensors, strict=True))
    axes = axes_of_program(dynamic_axes, dynamic_shapes, arguments, inputs, output_names or ("output",))
    if isinstance(model, ExportedModule):
        axes = model.axes(inputs).renamed(axes, names)
    with _mode(model, trains(training)):
        traced = trace(
            model,
            positional,
            named,
            input_names=names,
            weight_names=(input_names or ())[len(names) :],
            axes=axes,
            decomposition_of=_decomposition_of,
            strict=strict,
        )
    if traced.written:
        text = (
            f"the program writes to {', '.join(traced.written)}. An ONNX model keeps nothing from one run to the next: "
            "the new values are left out. Return them from the program if they matter"
        )
        caller = nearest_user_place(sys._getframe())
        file, line = (caller.file, caller.line) if caller is not None else ("<unknown>", 0)
        warnings.warn_explicit(text, DroppedWriteWarning, file, line)
    return Capture(traced, names, output_names_for(len(traced.graph.outputs), output_names), axes)


def export(
    model: Program,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    external_data: bool | None = None,
    dynamic_shapes: DynamicShapes | None = None,
    dynamic_axes: DynamicAxes | None = None,
    training: object = False,
    do_constant_folding: bool = True,
    strict: bool = False,
) -> ONNXProgram:
    """Export a PyTorch program to ONNX.

    The program is recorded once, over tensors without data; its parameters become the model's weights.

    Args:
        model: A `torch.nn.Module`, any function of tensors, or an `ExportedProgram` of `torch.export`, whose dynamic
            shapes are the model's.
        args: The arguments to call it with, a tuple or one tensor. Tensors become inputs; everything else is built in.
            A dict at the end of the tuple holds keyword arguments. An `ExportedProgram` knows its own.
        f: Where to write the model: a path, or a file opened for writing bytes. None writes nothing.
        kwargs: Keyword arguments to call it with.
        verbose: Print the exported graph.
        input_names: Names for the inputs, from the first; fewer than there are will do. More go to the weights.
        output_names: Names for the outputs, likewise.
        opset_version: The opset to deliver, 7 to 28; 18 if not given. Never another one.
        external_data: Write the weights to `<f>.data`. By default only where one file cannot hold them.
        dynamic_shapes: Sizes that may vary, as `torch.export` takes them: `{"x": {0: torch.export.Dim("batch")}}`.
        dynamic_axes: Sizes that may vary, by the names of inputs: `{"x": [0, 2]}`, `{"x": {0: "batch"}}`, or both. An
            output's entry names the axes of that output.
        training: Export the module as it is in training mode rather than in evaluation mode: True, or `torch.onnx`'s
            TrainingMode. Either way it is left in the mode it was in.
        do_constant_folding: Compute what depends on weights alone, and fold batch norms into convolutions.
        strict: Refuse a program that turns a tensor into a Python value, rather than warn.

    Returns:
        The exported program. Call it to run it in onnxruntime.
    """
    checked_opset(opset_version)
    capture = capture_program(
        model,
        args,
        kwargs,
        input_names=input_names,
        output_names=output_names,
        dynamic_axes=dynamic_axes,
        dynamic_shapes=dynamic_shapes,
        training=training,
        strict=strict,
    )
    program = capture.lower(opset_version, do_constant_folding=do_constant_folding)
    if verbose:
        print(printed(program.model))
    if f is not None:
        program.save(f, external_data=external_data)
    return program


def _callable(
    program: torch.export.ExportedProgram, args: Any, kwargs: Mapping[str, Any] | None, training: object
) -> tuple[ExportedModule, Any, Mapping[str, Any] | None]:
    """An exported program as a module, with the arguments that it was exported with if none are given."""
    if trains(training):
        raise ArgumentError(
            "training=True, and model is an ExportedProgram, whose mode is built in: put the module into training mode "
            "before torch.export.export"
        )
    module = ExportedModule(program)
    if args == () and kwargs is None:
        args, kwargs = module.example()
        # An empty dict, so that another one before it stays an argument.
        args = args if kwargs else (*args, {})
    return module, args, kwargs


def _decomposition_of(op: OpOverload) -> Callable[..., Any] | None:
    """How torch writes an operator in simpler ones, for operators that have no lowering."""
    if is_lowered(op):
        return None
    known = _decompositions().get(op)
    # A composite that a decomposition of torch's calls comes here whole.
    return op.decompose if known is None and op._can_decompose() else known


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    return {**_core_aten_decompositions_post_autograd(), **STRIDED, **COPIES}


@contextmanager
def _mode(model: Program, training: bool | None) -> Iterator[None]:
    """Put a module into evaluation or training mode (None: leave it), and back every part into the mode it was in."""
    if not isinstance(model, torch.nn.Module) or training is None:
        yield
        return
    before = [(module, module.training) for module in model.modules()]
    try:
        if any(mode is not training for _, mode in before):
            # A program from torch.export has its mode built in, and says so.
            with suppress(NotImplementedError):
                model.train(training)
        yield
    finally:
        for module, mode in before:
            module.training = mode
